"use strict";
// Number formats, with narrow spaces between thousands.
watch.numbers = (function () {
  const NONE = "–";

  function formatted(value, digits) {
    const text = new Intl.NumberFormat("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value);
    // No sign for a number that is rounded to zero.
    const plain = /^-[0.,]+$/.test(text) ? text.slice(1) : text;
    return plain.replace(/,/g, "\u202f").replace("-", "\u2212");
  }

  function isNumber(value) {
    return typeof value === "number" && Number.isFinite(value);
  }

  function number(value, digits) {
    if (!isNumber(value)) return NONE;
    if (digits !== undefined) return formatted(value, digits);
    const size = Math.abs(value);
    if (size > 0 && size < 0.0001) return value.toExponential(2).replace("-", "\u2212");
    return formatted(value, size >= 10000 ? 0 : size >= 100 ? 1 : size >= 1 || size === 0 ? 2 : 4);
  }

  function money(value) {
    return isNumber(value) ? formatted(value, Math.abs(value) >= 1e7 ? 0 : 2) : NONE;
  }

  function price(value, digits) {
    if (Number.isInteger(digits) && digits >= 0 && digits <= 8) return number(value, digits);
    return isNumber(value) && Math.abs(value) >= 1 ? formatted(value, 2) : number(value);
  }

  function signed(value, text) {
    return isNumber(value) && value > 0 ? "+" + text(value) : text(value);
  }

  function percent(value, digits) {
    return isNumber(value) ? formatted(value * 100, digits === undefined ? 1 : digits) + "%" : NONE;
  }

  function milliseconds(value) {
    if (!isNumber(value)) return NONE;
    return formatted(value, value >= 100 ? 0 : value >= 1 ? 2 : 3);
  }

  function count(value) {
    return isNumber(value) ? formatted(value, 0) : NONE;
  }

  // "2026-01-02T03:04:05.678+00:00" as "03:04:05", with the date if it is not today.
  function clock(text) {
    const time = new Date(text);
    if (typeof text !== "string" || Number.isNaN(time.getTime())) return typeof text === "string" && text ? text : NONE;
    const [day, rest] = time.toISOString().split("T");
    const short = rest.slice(0, 8);
    return day === new Date().toISOString().slice(0, 10) ? short : day + " " + short;
  }

  function duration(seconds) {
    if (!isNumber(seconds)) return NONE;
    const total = Math.max(Math.round(seconds), 0);
    if (total < 60) return total + " s";
    if (total < 3600) return Math.floor(total / 60) + " min " + (total % 60) + " s";
    if (total < 86400) return Math.floor(total / 3600) + " h " + Math.floor((total % 3600) / 60) + " min";
    return Math.floor(total / 86400) + " d " + Math.floor((total % 86400) / 3600) + " h";
  }

  function capital(word) {
    return word.slice(0, 1).toUpperCase() + word.slice(1);
  }

  return { capital, number, money, price, signed, percent, milliseconds, count, clock, duration };
})();
