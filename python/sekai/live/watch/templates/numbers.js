"use strict";
// Numbers as people read them, in groups of three with narrow spaces between.
watch.numbers = (function () {
  const NONE = "–";

  function written(value, digits) {
    const text = new Intl.NumberFormat("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value);
    // What was rounded to nothing has no sign.
    const plain = /^-[0.,]+$/.test(text) ? text.slice(1) : text;
    return plain.replace(/,/g, "\u202f").replace("-", "\u2212");
  }

  function isNumber(value) {
    return typeof value === "number" && Number.isFinite(value);
  }

  function number(value, digits) {
    if (!isNumber(value)) return NONE;
    if (digits !== undefined) return written(value, digits);
    const size = Math.abs(value);
    if (size > 0 && size < 0.0001) return value.toExponential(2).replace("-", "\u2212");
    return written(value, size >= 10000 ? 0 : size >= 100 ? 1 : size >= 1 || size === 0 ? 2 : 4);
  }

  function money(value) {
    return isNumber(value) ? written(value, Math.abs(value) >= 1e7 ? 0 : 2) : NONE;
  }

  function price(value) {
    return isNumber(value) && Math.abs(value) >= 1 ? written(value, 2) : number(value);
  }

  function signed(value, text) {
    return isNumber(value) && value > 0 ? "+" + text(value) : text(value);
  }

  function percent(value, digits) {
    return isNumber(value) ? written(value * 100, digits === undefined ? 1 : digits) + "%" : NONE;
  }

  function milliseconds(value) {
    if (!isNumber(value)) return NONE;
    return written(value, value >= 100 ? 0 : value >= 1 ? 2 : 3);
  }

  function count(value) {
    return isNumber(value) ? written(value, 0) : NONE;
  }

  // "2026-01-02T03:04:05.678+00:00" as "03:04:05", with its day if that is another than today.
  function clock(text) {
    const time = new Date(text);
    if (typeof text !== "string" || Number.isNaN(time.getTime())) return typeof text === "string" && text ? text : NONE;
    const [day, rest] = time.toISOString().split("T");
    const short = rest.slice(0, 8);
    return day === new Date().toISOString().slice(0, 10) ? short : day + " " + short;
  }

  function duration(seconds) {
    if (!isNumber(seconds)) return NONE;
    const whole = Math.max(Math.round(seconds), 0);
    if (whole < 60) return whole + " s";
    if (whole < 3600) return Math.floor(whole / 60) + " min " + (whole % 60) + " s";
    if (whole < 86400) return Math.floor(whole / 3600) + " h " + Math.floor((whole % 3600) / 60) + " min";
    return Math.floor(whole / 86400) + " d " + Math.floor((whole % 86400) / 3600) + " h";
  }

  function capital(word) {
    return word.slice(0, 1).toUpperCase() + word.slice(1);
  }

  return { capital, number, money, price, signed, percent, milliseconds, count, clock, duration };
})();
