"use strict";
// Hands lines and bars to plotly, in the colours of the theme, and only where they are seen.
watch.charts = (function () {
  // Between two drawings of a chart, in milliseconds: eyes and batteries need no more.
  const PAUSE = 800;
  const given = new Map();

  function themed(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  }

  function seenThrough(name, share) {
    const parts = [1, 3, 5].map((at) => parseInt(themed(name).slice(at, at + 2), 16));
    return "rgba(" + parts.join(",") + "," + share + ")";
  }

  // Plotly reads a little HTML in names: those from files are not to be read so.
  function plain(text) {
    return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }

  function axis(own, narrow) {
    return Object.assign(
      {
        gridcolor: themed("grid"),
        linecolor: themed("rule"),
        zerolinecolor: themed("rule"),
        tickfont: { color: themed("faint"), size: narrow ? 10.5 : 11.5 },
        separatethousands: true,
        automargin: true,
        nticks: narrow ? 4 : 8,
      },
      own,
      own.title ? { title: { text: own.title, font: { color: themed("faint"), size: 12 } } } : {}
    );
  }

  function dressed(own, narrow) {
    const layout = Object.assign({ showlegend: false, bargap: 0.08 }, own);
    layout.font = { family: themed("sans"), size: 12, color: themed("ink") };
    layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.margin = Object.assign({ l: 8, r: narrow ? 8 : 14, t: own.showlegend ? 22 : 10, b: 8 }, own.margin);
    layout.separators = ".\u202f";
    layout.hovermode = own.hovermode || "x unified";
    layout.hoverlabel = { bgcolor: themed("card"), bordercolor: themed("rule"), font: { color: themed("ink"), size: 12 } };
    // A finger that scrolls the page must not zoom a chart.
    layout.dragmode = window.matchMedia("(pointer: coarse)").matches ? false : "zoom";
    // What was zoomed into stays when numbers come.
    layout.uirevision = "same";
    layout.legend = { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { color: themed("ink"), size: 12 }, bgcolor: "rgba(0,0,0,0)" };
    for (const name of Object.keys(own)) {
      if (/^[xy]axis\d*$/.test(name)) layout[name] = axis(own[name], narrow);
    }
    return layout;
  }

  // Drawing takes its time: what comes meanwhile waits, and only the last of it is drawn.
  function draw(holder) {
    const chart = given.get(holder);
    if (chart.isBusy || !holder.clientWidth || document.hidden) return;
    const narrow = holder.clientWidth < 560;
    const [traces, layout] = chart.build();
    const settings = { responsive: true, displayModeBar: false, displaylogo: false, showSendToCloud: false, plotlyServerURL: "" };
    chart.isBusy = true;
    chart.isDrawn = true;
    holder.dataset.drawn = document.documentElement.dataset.theme;
    Promise.resolve(Plotly.react(holder, traces, dressed(layout, narrow), settings)).finally(() => setTimeout(rested, PAUSE, holder));
  }

  function rested(holder) {
    const chart = given.get(holder);
    chart.isBusy = false;
    if (!chart.isDrawn) draw(holder);
  }

  // `build` gives traces and layout; it is asked again when the theme changes.
  function show(holder, build, label) {
    holder.setAttribute("aria-label", label);
    const isBusy = given.has(holder) && given.get(holder).isBusy;
    given.set(holder, { build, isBusy, isDrawn: false });
    draw(holder);
  }

  function drawSeen() {
    for (const [holder, chart] of given) {
      chart.isDrawn = false;
      draw(holder);
    }
  }

  function holder(height, label) {
    const made = watch.make("div", { class: "chart", role: "img", "aria-label": label, "data-chart": true });
    made.style.height = height + "px";
    return made;
  }

  document.addEventListener("themechange", drawSeen);
  document.addEventListener("visibilitychange", drawSeen);
  return { show, drawSeen, holder, themed, seenThrough, plain };
})();
