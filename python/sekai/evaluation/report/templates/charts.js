"use strict";
// Draws visible charts as SVG, in the colours of the theme.
const report = (function () {
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const decoded = new Map();
  const SPACE = document.getElementById("drawing").namespaceURI;
  const DASHES = { dash: "8 5", dot: "2 4", dashdot: "8 4 2 4", longdash: "13 5", longdashdot: "13 4 2 4" };
  const HATCH = { "/": "M0 6L6 0", "\\": "M0 0L6 6", x: "M0 0L6 6M0 6L6 0", "-": "M0 3L6 3", ".": "M2 3L4 3" };
  let hatches = 0;

  // Arrays are little-endian bytes in base64: "f4:...", "f8:..." or, in days since a time in
  // milliseconds, "d4/<time>:...".
  function numbers(index) {
    if (!decoded.has(index)) {
      const [kind, text] = data.arrays[index].split(":");
      const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
      const view = new DataView(bytes.buffer), size = kind[1] === "8" ? 8 : 4;
      const origin = kind[0] === "d" ? Number(kind.slice(3)) : 0, unit = kind[0] === "d" ? 864e5 : 1;
      const made = new Float64Array(bytes.length / size);
      for (let i = 0; i < made.length; i++) {
        made[i] = origin + unit * (size === 4 ? view.getFloat32(4 * i, true) : view.getFloat64(8 * i, true));
      }
      decoded.set(index, made);
    }
    return decoded.get(index);
  }

  function themed(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  }

  // "$0" is the first colour of the theme, "$0/0.2" the same with opacity 0.2.
  function colour(text) {
    if (!text || text[0] !== "$") return text;
    const [name, share] = text.slice(1).split("/");
    const found = themed(/^\d+$/.test(name) ? "c" + name : name);
    if (share === undefined) return found;
    const parts = [1, 3, 5].map((at) => parseInt(found.slice(at, at + 2), 16));
    return "rgba(" + parts.join(",") + "," + share + ")";
  }

  function array(value) {
    return value && typeof value.array === "number" ? numbers(value.array) : value || [];
  }

  function node(parent, name, attributes, text) {
    const made = document.createElementNS(SPACE, name);
    for (const key of Object.keys(attributes)) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }

  function html(parent, name, className, text) {
    const made = document.createElement(name);
    made.className = className;
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }

  function panelOf(trace) {
    return trace.yaxis ? Number(trace.yaxis.slice(1) || 1) - 1 : 0;
  }

  function traceOf(given) {
    const made = Object.assign({}, given, { x: array(given.x), y: array(given.y), panel: panelOf(given) });
    made.customdata = array(given.customdata);
    made.lows = made.highs = made.y;
    if (given.error_y) {
      made.highs = made.y.map((value, at) => value + given.error_y.array[at]);
      made.lows = made.y.map((value, at) => value - given.error_y.arrayminus[at]);
    }
    return made;
  }

  // Areas of a group are drawn on top of each other: from the sum below to the sum with them.
  function stack(traces) {
    const sums = {};
    for (const trace of traces.filter((each) => each.stackgroup)) {
      const below = sums[trace.stackgroup] || new Float64Array(trace.y.length);
      trace.values = trace.y;
      trace.lows = below;
      trace.highs = trace.y = Float64Array.from(trace.values, (value, at) => value + below[at]);
      sums[trace.stackgroup] = trace.y;
    }
  }

  // Bars of a category are drawn beside each other, income to the left of zero.
  function stackBars(traces) {
    const ends = {};
    for (const trace of traces) {
      trace.starts = trace.x.map((value, at) => {
        const key = trace.y[at] + (value < 0 ? "-" : "+"), start = ends[key] || 0;
        ends[key] = start + value;
        return start;
      });
    }
  }

  function extent(lists, padding) {
    let low = Infinity, high = -Infinity;
    for (const list of lists) {
      for (const value of list) {
        if (value !== null && isFinite(value)) {
          if (value < low) low = value;
          if (value > high) high = value;
        }
      }
    }
    if (low > high) return [0, 1];
    const room = (high - low || Math.abs(high) || 1) * padding;
    return [low - room, high + room];
  }

  function legend(holder, state) {
    const box = html(holder, "div", "legend");
    const seen = new Set(), named = state.traces.filter((each) => each.showlegend !== false && each.name);
    const ordered = (state.layout.legend || {}).traceorder === "reversed" ? named.reverse() : named;
    if (state.layout.showlegend === false) return box;
    for (const trace of ordered) {
      if (seen.has(trace.name)) continue;
      seen.add(trace.name);
      const button = html(box, "button", "legend-item");
      button.type = "button";
      button.setAttribute("aria-pressed", String(!state.hidden.has(trace.name)));
      swatch(button, trace);
      html(button, "span", "legendtext", trace.name);
      button.addEventListener("click", function () {
        if (!state.hidden.delete(trace.name)) state.hidden.add(trace.name);
        paint(holder);
      });
    }
    return box;
  }

  function swatch(button, trace) {
    const svg = node(button, "svg", { class: "legend-swatch", viewBox: "0 0 28 10", "aria-hidden": "true" });
    const marker = trace.marker || {}, line = trace.line || {};
    if (trace.stackgroup || trace.type === "bar") {
      area(svg, "M4 0H24V10H4Z", trace.fillcolor || marker.color, trace.fillpattern || marker.pattern);
    } else if (trace.mode === "markers") symbol(svg, marker, 14, 5, colour(marker.color));
    else node(svg, "path", stroke(line, "M0 5H28"));
  }

  function stroke(line, path) {
    const dash = DASHES[line.dash] || (line.dash || "").replace(/px/g, "").replace(/,/g, " ");
    const made = { d: path, fill: "none", stroke: colour(line.color), "stroke-width": line.width || 1.6, "stroke-linejoin": "round" };
    return dash && dash !== "solid" ? Object.assign(made, { "stroke-dasharray": dash }) : made;
  }

  function area(parent, path, fill, pattern) {
    const shape = pattern && HATCH[pattern.shape];
    node(parent, "path", { d: path, fill: colour(fill) });
    if (!shape) return;
    const id = "hatch" + hatches++;
    const made = node(parent, "pattern", { id: id, width: 6, height: 6, patternUnits: "userSpaceOnUse" });
    node(made, "path", { d: shape, stroke: themed("card"), "stroke-width": 1.4 });
    node(parent, "path", { d: path, fill: "url(#" + id + ")" });
  }

  function symbol(parent, marker, x, y, fill) {
    const size = (marker.size || 8) / 2, name = marker.symbol || "circle";
    const corners = {
      square: [-1, -1, 1, -1, 1, 1, -1, 1],
      diamond: [0, -1.3, 1.2, 0, 0, 1.3, -1.2, 0],
      "triangle-up": [0, -1.1, 1.1, 0.9, -1.1, 0.9],
      "triangle-down": [0, 1.1, 1.1, -0.9, -1.1, -0.9],
      star: [0, -1.4, 0.35, -0.4, 1.3, -0.4, 0.55, 0.25, 0.8, 1.2, 0, 0.65, -0.8, 1.2, -0.55, 0.25, -1.3, -0.4, -0.35, -0.4],
    };
    const strokes = { cross: "M-1 0H1M0 -1V1", x: "M-.8 -.8L.8 .8M-.8 .8L.8 -.8", "line-ew-open": "M-1 0H1" };
    const place = "translate(" + x + " " + y + ") scale(" + size + ")";
    const edge = (marker.line || {}).color ? colour(marker.line.color) : "none";
    if (strokes[name]) {
      return node(parent, "path", { d: strokes[name], transform: place, stroke: fill, "stroke-width": 2.4 / size, fill: "none" });
    }
    const shared = { transform: place, fill: fill, stroke: edge, "stroke-width": 1 / size, opacity: marker.opacity || 1 };
    if (!corners[name]) return node(parent, "circle", Object.assign({ r: 1 }, shared));
    return node(parent, "polygon", Object.assign({ points: corners[name].join(" ") }, shared));
  }

  // Path through finite points; a gap where a value is missing.
  function path(x, y, sx, sy) {
    let text = "", open = false;
    for (let i = 0; i < y.length; i++) {
      if (y[i] === null || !isFinite(y[i])) { open = false; continue; }
      text += (open ? "L" : "M") + sx(x[i]).toFixed(1) + " " + sy(y[i]).toFixed(1);
      open = true;
    }
    return text;
  }

  function between(x, lows, highs, sx, sy) {
    const back = Array.from(lows, (_, at) => lows.length - 1 - at);
    const upper = path(x, highs, sx, sy), lower = path(back.map((at) => x[at]), back.map((at) => lows[at]), sx, sy);
    return upper && lower ? upper + lower.replace("M", "L") + "Z" : "";
  }

  function drawTrace(group, trace, before, sx, sy) {
    if (trace.type === "bar") return drawBars(group, trace, sx, sy);
    if (trace.stackgroup) {
      area(group, between(trace.x, trace.lows, trace.highs, sx, sy), trace.fillcolor, trace.fillpattern);
    } else if (trace.fill === "tonexty" && before) {
      const x = Array.from(before.x).concat(Array.from(trace.x).reverse());
      const y = Array.from(before.y).concat(Array.from(trace.y).reverse());
      const edge = path(x, y, sx, sy).replace(/(?!^)M/g, "L");
      if (edge) node(group, "path", { d: edge + "Z", fill: colour(trace.fillcolor) });
    } else if (trace.mode !== "markers" && (trace.line || {}).width !== 0) {
      node(group, "path", stroke(trace.line || {}, path(trace.x, trace.y, sx, sy)));
    }
    if (trace.error_y) {
      trace.y.forEach((value, at) => {
        const x = sx(trace.x[at]), ends = [sy(trace.lows[at]), sy(trace.highs[at])];
        if (!isFinite(ends[0] + ends[1])) return;
        const d = "M" + x + " " + ends[0] + "V" + ends[1] + "M" + (x - 5) + " " + ends[0] + "h10M" + (x - 5) + " " + ends[1] + "h10";
        node(group, "path", { d: d, stroke: colour(trace.error_y.color), "stroke-width": 2, fill: "none" });
      });
    }
    if ((trace.mode || "").indexOf("markers") >= 0) {
      const fill = colour(trace.marker.color);
      for (let i = 0; i < trace.y.length; i++) {
        if (trace.y[i] !== null && isFinite(trace.y[i])) symbol(group, trace.marker, sx(trace.x[i]), sy(trace.y[i]), fill);
      }
    }
  }

  function drawBars(group, trace, sx, sy) {
    trace.x.forEach((value, at) => {
      const left = sx(Math.min(trace.starts[at], trace.starts[at] + value)), middle = sy(trace.y[at]);
      const width = Math.abs(sx(value) - sx(0)), half = Math.min(13, sy.band / 2.6);
      const d = "M" + left + " " + (middle - half) + "h" + width + "v" + 2 * half + "h" + -width + "Z";
      area(group, d, trace.marker.color, trace.marker.pattern);
    });
  }

  // Sizes of the panels: their areas, scales and ticks.
  function panelsOf(state, width, height) {
    const narrow = width < 560, layout = state.layout, shown = state.traces.filter((each) => !state.hidden.has(each.name));
    const names = Object.keys(layout).filter((name) => /^yaxis\d*$/.test(name));
    const bars = state.traces.some((each) => each.type === "bar");
    const categories = bars ? Array.from(new Set(state.traces.flatMap((each) => Array.from(each.y)))) : null;
    const axis = layout.xaxis || {}, bottom = axis.title ? 44 : axis.ticktext && narrow ? 92 : 26, top = 20;
    const inner = height - top - bottom;
    const panels = names.map((name, index) => {
      const own = shown.filter((each) => each.panel === index), given = layout[name];
      const domain = given.domain || [0, 1];
      const lists = own.flatMap((each) => (each.stackgroup ? [each.lows, each.highs] : [each.lows, each.highs]));
      if (bars) return { traces: own, categories: categories, top: top, bottom: top + inner, ticks: categories.map((each) => [each, each]) };
      const range = extent(lists, 0.05), y0 = top + (1 - domain[1]) * inner, y1 = top + (1 - domain[0]) * inner;
      const ticks = scales.ticks(range, Math.max(2, Math.min(narrow ? 5 : 7, (y1 - y0) / 34)));
      return { traces: own, range: range, top: y0, bottom: y1, ticks: ticks.map((each) => [each, scales.format(each, given.tickformat || ".6~g")]) };
    });
    const longest = Math.max(...panels.flatMap((each) => each.ticks.map((tick) => tick[1].length)), 2);
    const left = Math.min(longest * 6.6 + 12, width * 0.42), right = narrow ? 8 : 16;
    const xs = bars ? state.traces.flatMap((each) => [each.starts, each.starts.map((start, at) => start + each.x[at]), [0]]) : state.traces.map((each) => each.x);
    const domain = state.zoom || axis.range || extent(xs, bars ? 0.03 : axis.type === "date" ? 0 : 0.01);
    const sx = scales.linear(domain, [left, width - right]);
    for (const panel of panels) {
      if (panel.categories) {
        const band = (panel.bottom - panel.top) / panel.categories.length;
        panel.sy = (name) => panel.top + band * (panel.categories.indexOf(name) + 0.5);
        panel.sy.band = band;
      } else panel.sy = scales.linear(panel.range, [panel.bottom, panel.top]);
    }
    return { panels: panels, sx: sx, domain: domain, left: left, right: width - right, narrow: narrow, bottom: top + inner };
  }

  function axes(svg, state, made) {
    const axis = state.layout.xaxis || {}, faint = themed("faint"), size = made.narrow ? 10.5 : 11.5;
    const room = made.narrow ? 58 : 95;
    const count = Math.max(2, (made.right - made.left) / room);
    let marks = axis.tickvals ? axis.tickvals.map((value, at) => [value, axis.ticktext ? axis.ticktext[at] : scales.format(value, ".4~g")]) : null;
    if (!marks) marks = axis.type === "date" ? scales.dates(made.domain, count) : scales.ticks(made.domain, count).map((each) => [each, scales.format(each, axis.tickformat || ",.6~g")]);
    marks = marks.filter((mark) => mark[0] >= made.domain[0] && mark[0] <= made.domain[1]);
    for (const panel of made.panels) {
      for (const [value, text] of panel.ticks) {
        const y = panel.sy(value), edge = value === 0 ? themed("rule") : themed("grid");
        if (!panel.categories) node(svg, "path", { d: "M" + made.left + " " + y + "H" + made.right, stroke: edge });
        const group = node(svg, "g", { class: "ytick" });
        node(group, "text", { x: made.left - 6, y: y + 4, "text-anchor": "end", "font-size": size, style: "fill:" + faint }, text);
      }
      for (const [value] of marks) {
        const edge = panel.categories && value === 0 ? themed("rule") : themed("grid");
        if (axis.showgrid !== false) node(svg, "path", { d: "M" + made.sx(value) + " " + panel.top + "V" + panel.bottom, stroke: edge });
      }
    }
    const tilted = axis.ticktext && made.narrow;
    for (const [value, text] of marks) {
      const x = made.sx(value), y = made.bottom + 17;
      const place = { x: x, y: y, "font-size": size, style: "fill:" + faint, "text-anchor": tilted || x > made.right - 20 ? "end" : "middle" };
      if (tilted) place.transform = "rotate(-40 " + x + " " + y + ")";
      node(svg, "text", place, text);
    }
    if (axis.title) {
      const middle = (made.left + made.right) / 2;
      node(svg, "text", { x: middle, y: made.bottom + 36, "text-anchor": "middle", "font-size": 12, style: "fill:" + faint }, axis.title.text);
    }
    (state.layout.annotations || []).forEach((each, at) => {
      const panel = made.panels[at];
      if (panel) node(svg, "text", { class: "annotation", x: Math.min(made.left, 60), y: panel.top - 7, "font-size": 12, style: "fill:" + faint }, each.text);
    });
  }

  function paint(holder) {
    const state = holder.state, chart = data.charts[Number(holder.dataset.chart)];
    holder.replaceChildren();
    const box = legend(holder, state), width = holder.clientWidth, height = chart.height - box.offsetHeight;
    const svg = node(holder, "svg", { class: "main-svg", width: width, height: height, viewBox: "0 0 " + width + " " + height });
    const made = panelsOf(state, width, height), clip = "clip" + holder.dataset.chart;
    const cut = node(svg, "clipPath", { id: clip });
    node(cut, "rect", { x: made.left, y: 0, width: made.right - made.left, height: height });
    axes(svg, state, made);
    made.panels.forEach((panel) => panel.traces.forEach((trace, at) => {
      const group = node(svg, "g", { class: "trace", "clip-path": "url(#" + clip + ")" });
      drawTrace(group, trace, panel.traces[at - 1], made.sx, panel.sy);
    }));
    pointer.attach(holder, svg, state, made, () => paint(holder));
    holder.dataset.width = width;
  }

  function draw(holder) {
    const view = data.charts[Number(holder.dataset.chart)].views[Number(holder.dataset.view || 0)];
    const traces = view.traces.map(traceOf), hidden = holder.state ? holder.state.hidden : new Set();
    stack(traces);
    stackBars(traces.filter((each) => each.type === "bar"));
    holder.state = { traces: traces, layout: view.layout, hidden: hidden, zoom: null };
    holder.dataset.drawn = document.documentElement.dataset.theme;
    paint(holder);
  }

  // Charts in hidden panels have no size and are drawn when shown.
  function drawVisible() {
    const theme = document.documentElement.dataset.theme;
    document.querySelectorAll("[data-chart]").forEach(function (holder) {
      if (holder.clientWidth === 0) return;
      if (holder.dataset.drawn !== theme) draw(holder);
      else if (Number(holder.dataset.width) !== holder.clientWidth) paint(holder);
    });
  }

  document.querySelectorAll("select[data-views]").forEach(function (select) {
    select.addEventListener("change", function () {
      const holder = document.querySelector('[data-chart="' + select.dataset.views + '"]');
      holder.dataset.view = select.value;
      draw(holder);
    });
  });
  document.addEventListener("themechange", drawVisible);
  window.addEventListener("resize", drawVisible);
  return { drawVisible: drawVisible, colour: colour, node: node, html: html, themed: themed };
})();
