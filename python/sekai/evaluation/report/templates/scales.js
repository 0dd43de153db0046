"use strict";
// Scales, ticks and number formats of charts.
const scales = (function () {
  const DAY = 864e5;
  const SPANS = [1e3, 5e3, 15e3, 3e4, 6e4, 3e5, 9e5, 18e5, 36e5, 108e5, 216e5, 432e5, DAY, 2 * DAY, 7 * DAY, 14 * DAY];
  const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  const UNITS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

  function linear(domain, range) {
    const slope = (range[1] - range[0]) / (domain[1] - domain[0] || 1);
    const scale = (value) => range[0] + (value - domain[0]) * slope;
    scale.inverse = (at) => domain[0] + (at - range[0]) / slope;
    return scale;
  }

  function trimmed(text) {
    return text.indexOf(".") < 0 ? text : text.replace(/\.?0+$/, "");
  }

  function grouped(text) {
    const [whole, rest] = text.split(".");
    const spaced = whole.replace(/\B(?=(\d{3})+$)/g, ",");
    return rest === undefined ? spaced : spaced + "." + rest;
  }

  // Formats as in ",.2~f": thousands, digits, trailing zeros removed, and f, g, s, r or %.
  function format(value, pattern) {
    if (value === null || !isFinite(value)) return "–";
    const [, comma, digits, tilde, kind] = /^(,?)(?:\.(\d+))?(~?)([a-z%]?)$/.exec(pattern || ".4~g");
    const places = digits === undefined ? 6 : Number(digits);
    let size = Math.abs(value), text = "";
    if (kind === "%") text = (100 * size).toFixed(digits === undefined ? 4 : places);
    else if (kind === "f") text = size.toFixed(places);
    else if (kind === "s") {
      const unit = UNITS.find((each) => size >= each[0]) || [1, ""];
      text = trimmed((size / unit[0]).toPrecision(places)) + unit[1];
    } else text = size !== 0 && (size >= 1e7 || size < 1e-4) ? size.toExponential(2) : String(Number(size.toPrecision(places)));
    if (tilde && kind !== "s" && text.indexOf("e") < 0) text = trimmed(text);
    if (comma && /^[\d.]+$/.test(text)) text = grouped(text);
    const sign = value < 0 && /[1-9]/.test(text) ? "−" : "";
    return sign + text + (kind === "%" ? "%" : "");
  }

  function step(span, count) {
    const rough = span / Math.max(count, 1), power = Math.pow(10, Math.floor(Math.log10(rough)));
    return power * [1, 2, 5, 10].find((each) => each * power >= rough * 0.999);
  }

  function ticks(domain, count) {
    const size = step(domain[1] - domain[0] || 1, count), found = [];
    for (let index = Math.ceil(domain[0] / size - 1e-9); index * size <= domain[1] + 1e-9 * size; index++) {
      found.push(Number((index * size).toPrecision(12)));
    }
    return found;
  }

  // Dates at round times, with a label each.
  function dates(domain, count) {
    const span = domain[1] - domain[0], size = SPANS.find((each) => span / each <= count);
    const found = [];
    if (size !== undefined) {
      for (let at = Math.ceil(domain[0] / size) * size; at <= domain[1]; at += size) {
        found.push([at, size < DAY ? clock(at) : day(at)]);
      }
      return found;
    }
    const months = [1, 2, 3, 6, 12, 24, 60, 120].find((each) => span / (30.4 * DAY * each) <= count) || 240;
    const first = new Date(domain[0]);
    let month = 12 * first.getUTCFullYear() + first.getUTCMonth();
    for (month = Math.ceil(month / months) * months; ; month += months) {
      const at = Date.UTC(Math.floor(month / 12), month % 12, 1), year = Math.floor(month / 12);
      if (at > domain[1]) return found;
      if (at >= domain[0]) found.push([at, months < 12 ? MONTHS[month % 12] + " " + year : String(year)]);
    }
  }

  function day(at) {
    const date = new Date(at);
    return date.getUTCDate() + " " + MONTHS[date.getUTCMonth()];
  }

  function clock(at) {
    const text = new Date(at).toISOString();
    return text.slice(11, text.slice(17, 19) === "00" ? 16 : 19);
  }

  function time(at) {
    const text = new Date(at).toISOString();
    return text.slice(11, 19) === "00:00:00" ? text.slice(0, 10) : text.slice(0, 16).replace("T", " ");
  }

  return { linear: linear, format: format, ticks: ticks, dates: dates, time: time };
})();
