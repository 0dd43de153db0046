"use strict";
// Draws plotly charts in the colors of the theme, only while they are visible.
watch.charts = (function () {
  // Milliseconds between two drawings of a chart.
  const PAUSE = 800;
  const charts = new Map();

  function color(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  }

  function transparent(name, alpha) {
    const parts = [1, 3, 5].map((at) => parseInt(color(name).slice(at, at + 2), 16));
    return "rgba(" + parts.join(",") + "," + alpha + ")";
  }

  // Plotly interprets some HTML in names: names from files are escaped.
  function plain(text) {
    return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }

  function axis(own, narrow) {
    return Object.assign(
      {
        gridcolor: color("grid"),
        linecolor: color("rule"),
        zerolinecolor: color("rule"),
        tickfont: { color: color("faint"), size: narrow ? 10.5 : 11.5 },
        separatethousands: true,
        automargin: true,
        nticks: narrow ? 4 : 8,
      },
      own,
      own.title ? { title: { text: own.title, font: { color: color("faint"), size: 12 } } } : {}
    );
  }

  function styledLayout(own, narrow) {
    const layout = Object.assign({ showlegend: false, bargap: 0.08 }, own);
    layout.font = { family: color("sans"), size: 12, color: color("ink") };
    layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.margin = Object.assign({ l: 8, r: narrow ? 8 : 14, t: own.showlegend ? 22 : 10, b: 8 }, own.margin);
    layout.separators = ".\u202f";
    layout.hovermode = own.hovermode || "x unified";
    layout.hoverlabel = { bgcolor: color("card"), bordercolor: color("rule"), font: { color: color("ink"), size: 12 } };
    // Scrolling by touch must not zoom a chart.
    layout.dragmode = window.matchMedia("(pointer: coarse)").matches ? false : "zoom";
    // Keep the zoom when data is updated.
    layout.uirevision = "same";
    layout.legend = { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { color: color("ink"), size: 12 }, bgcolor: "rgba(0,0,0,0)" };
    for (const name of Object.keys(own)) {
      if (/^[xy]axis\d*$/.test(name)) layout[name] = axis(own[name], narrow);
    }
    return layout;
  }

  // Drawing is slow: updates wait until it is done, and only the last one is drawn.
  function draw(holder) {
    const chart = charts.get(holder);
    if (chart.isBusy || !holder.clientWidth || document.hidden) return;
    const narrow = holder.clientWidth < 560;
    const [traces, layout] = chart.build();
    const settings = { responsive: true, displayModeBar: false, displaylogo: false, showSendToCloud: false, plotlyServerURL: "" };
    chart.isBusy = true;
    chart.isDrawn = true;
    holder.dataset.drawn = document.documentElement.dataset.theme;
    Promise.resolve(Plotly.react(holder, traces, styledLayout(layout, narrow), settings)).finally(() => setTimeout(drawPending, PAUSE, holder));
  }

  function drawPending(holder) {
    const chart = charts.get(holder);
    chart.isBusy = false;
    if (!chart.isDrawn) draw(holder);
  }

  // `build` returns traces and layout; it is called again when the theme changes.
  function show(holder, build, label) {
    holder.setAttribute("aria-label", label);
    const isBusy = charts.has(holder) && charts.get(holder).isBusy;
    charts.set(holder, { build, isBusy, isDrawn: false });
    draw(holder);
  }

  function drawVisible() {
    for (const [holder, chart] of charts) {
      chart.isDrawn = false;
      draw(holder);
    }
  }

  function holder(height, label) {
    const element = watch.make("div", { class: "chart", role: "img", "aria-label": label, "data-chart": true });
    element.style.height = height + "px";
    return element;
  }

  document.addEventListener("themechange", drawVisible);
  document.addEventListener("visibilitychange", drawVisible);
  return { show, drawVisible, holder, color, transparent, plain };
})();
