"use strict";
// Values under the pointer, and zoom by dragging.
const pointer = (function () {
  const MOST = 14;

  function nearest(x, value) {
    let low = 0, high = x.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (x[middle] < value) low = middle + 1;
      else high = middle;
    }
    return low > 0 && value - x[low - 1] < x[low] - value ? low - 1 : low;
  }

  function filled(template, trace, at) {
    return template
      .replace(/<extra>.*/, "")
      .replace(/%\{(\w+)(?::([^}]*))?\}/g, (_, name, pattern) => {
        const value = trace[name][at];
        return typeof value === "number" ? (pattern || name !== "customdata" ? scales.format(value, pattern) : String(value)) : String(value);
      });
  }

  // Values of all lines at the x next to the pointer.
  function unified(state, made, x) {
    const wanted = made.sx.inverse(x), shown = made.panels.flatMap((each) => each.traces);
    const lines = shown.filter((each) => each.hoverinfo !== "skip" && each.type !== "bar" && each.x.length);
    if (!lines.length) return null;
    const places = lines.map((each) => each.x[nearest(each.x, wanted)]);
    const at = places.reduce((best, each) => (Math.abs(each - wanted) < Math.abs(best - wanted) ? each : best));
    const rows = [];
    for (const trace of lines) {
      const index = nearest(trace.x, at), value = (trace.values || trace.y)[index];
      // A thinned line has no value at every x: the next one stands for it.
      if (value === null || !isFinite(value) || (trace.mode === "markers" && trace.x[index] !== at)) continue;
      const text = trace.hovertemplate ? filled(trace.hovertemplate, trace, index) : scales.format(value, trace.yhoverformat || ".4~g");
      rows.push([trace, text]);
    }
    const isDate = (state.layout.xaxis || {}).type === "date";
    return { x: made.sx(at), title: isDate ? scales.time(at) : scales.format(at, ",.6~g"), rows: rows.reverse() };
  }

  // The dot or bar under the pointer.
  function closest(state, made, x, y) {
    let best = null, least = 900;
    for (const panel of made.panels) {
      for (const trace of panel.traces) {
        if (!trace.hovertemplate) continue;
        for (let i = 0; i < trace.y.length; i++) {
          const isBar = trace.type === "bar";
          const left = isBar ? made.sx(trace.starts[i]) : 0, right = isBar ? made.sx(trace.starts[i] + trace.x[i]) : 0;
          const inside = isBar && x >= Math.min(left, right) && x <= Math.max(left, right);
          const dx = isBar ? (inside ? 0 : 99) : made.sx(trace.x[i]) - x, dy = panel.sy(trace.y[i]) - y;
          if (dx * dx + dy * dy < least) {
            least = dx * dx + dy * dy;
            best = { x: null, title: "", rows: [[trace, filled(trace.hovertemplate, trace, i)]] };
          }
        }
      }
    }
    return best;
  }

  function show(tip, found, x, y, width) {
    tip.replaceChildren();
    tip.hidden = !found || !found.rows.length;
    if (tip.hidden) return;
    if (found.title) report.html(tip, "div", "tip-title", found.title);
    for (const [trace, text] of found.rows.slice(0, MOST)) {
      const row = report.html(tip, "div", "tip-row");
      const dot = report.html(row, "span", "tip-dot");
      const line = trace.line || {}, marker = trace.marker || {};
      dot.style.background = report.colour(trace.stackgroup ? trace.fillcolor : marker.color || line.color);
      report.html(row, "span", "tip-name", trace.name || "");
      report.html(row, "span", "tip-value", text);
    }
    const room = tip.offsetWidth + 16;
    tip.style.left = Math.max(0, x + room > width ? x - room : x + 16) + "px";
    tip.style.top = Math.max(0, y - 20) + "px";
  }

  function attach(holder, svg, state, made, repaint) {
    const tip = report.html(holder, "div", "tip");
    tip.hidden = true;
    const cursor = report.node(svg, "path", { class: "cursor", stroke: report.themed("faint"), "stroke-dasharray": "3 3" });
    const area = report.node(svg, "rect", { class: "zoom", fill: report.themed("c0"), opacity: 0.12, width: 0, y: 0, height: svg.clientHeight });
    let start = null;
    const isUnified = state.layout.hovermode !== "closest";

    function place(event) {
      const box = svg.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    }

    svg.addEventListener("pointermove", function (event) {
      const [x, y] = place(event);
      const inside = x >= made.left && x <= made.right;
      const found = !inside ? null : isUnified ? unified(state, made, x) : closest(state, made, x, y);
      cursor.setAttribute("d", found && found.x !== null ? "M" + found.x + " " + made.panels[0].top + "V" + made.bottom : "");
      show(tip, found, x, y + svg.offsetTop || y, holder.clientWidth);
      if (start !== null) {
        area.setAttribute("x", Math.min(start, x));
        area.setAttribute("width", Math.abs(x - start));
      }
    });
    svg.addEventListener("pointerleave", function () {
      tip.hidden = true;
      cursor.setAttribute("d", "");
      start = null;
      area.setAttribute("width", 0);
    });
    // Scrolling by touch must not zoom a chart.
    if (!isUnified || window.matchMedia("(pointer: coarse)").matches) return;
    svg.addEventListener("pointerdown", (event) => { start = place(event)[0]; });
    svg.addEventListener("pointerup", function (event) {
      const ends = [start, place(event)[0]].sort((one, other) => one - other);
      const isZoom = start !== null && ends[1] - ends[0] > 8;
      start = null;
      if (!isZoom) return;
      state.zoom = ends.map((at) => made.sx.inverse(Math.min(Math.max(at, made.left), made.right)));
      repaint();
    });
    svg.addEventListener("dblclick", function () {
      state.zoom = null;
      repaint();
    });
  }

  return { attach: attach };
})();
