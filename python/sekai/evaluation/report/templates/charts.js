"use strict";
// Draws visible charts with plotly, in the colours of the theme.
const report = (function () {
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const decoded = new Map();
  const turns = new Map();

  // Fixed buttons: some versions of plotly offer to upload charts to a server.
  function settings(narrow) {
    return {
      responsive: true,
      displaylogo: false,
      displayModeBar: narrow ? false : "hover",
      modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
      showSendToCloud: false,
      plotlyServerURL: "",
    };
  }

  // Arrays are little-endian bytes in base64: "f4:..." or "f8:...".
  function numbers(index) {
    if (!decoded.has(index)) {
      const [kind, text] = data.arrays[index].split(":");
      const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
      const view = new DataView(bytes.buffer);
      const size = kind === "f4" ? 4 : 8;
      const made = new Float64Array(bytes.length / size);
      for (let i = 0; i < made.length; i++) {
        made[i] = size === 4 ? view.getFloat32(4 * i, true) : view.getFloat64(8 * i, true);
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
    const [name, share] = text.slice(1).split("/");
    const found = themed(/^\d+$/.test(name) ? "c" + name : name);
    if (share === undefined) return found;
    const parts = [1, 3, 5].map((at) => parseInt(found.slice(at, at + 2), 16));
    return "rgba(" + parts.join(",") + "," + share + ")";
  }

  function resolved(value, key) {
    if (Array.isArray(value)) return value.map((part) => resolved(part, ""));
    if (value && typeof value === "object") {
      if ("array" in value && typeof value.array === "number") return numbers(value.array);
      const made = {};
      for (const name of Object.keys(value)) made[name] = resolved(value[name], name);
      return made;
    }
    const isColour = typeof value === "string" && /color$/.test(key) && value[0] === "$";
    return isColour ? colour(value) : value;
  }

  function axis(name, given, narrow) {
    return Object.assign(
      {
        gridcolor: themed("grid"),
        linecolor: themed("rule"),
        zerolinecolor: themed("rule"),
        zeroline: name[0] === "y",
        tickfont: { color: themed("faint"), size: narrow ? 10.5 : 11.5 },
        automargin: true,
        nticks: narrow ? 5 : 9,
        // Policy names do not fit side by side on a phone.
        tickangle: given.ticktext && narrow ? -45 : "auto",
      },
      given,
      given.title ? { title: { text: given.title.text, font: { color: themed("faint"), size: 12 } } } : {}
    );
  }

  function legend(y, narrow) {
    return {
      orientation: "h",
      x: 0,
      xanchor: "left",
      y: y,
      yanchor: "bottom",
      font: { color: themed("ink"), size: narrow ? 11 : 12 },
      bgcolor: "rgba(0,0,0,0)",
      itemwidth: narrow ? 30 : 38,
    };
  }

  function layoutOf(given, height, narrow) {
    const layout = Object.assign({}, given);
    const inner = height - 90;
    const titled = given.xaxis && given.xaxis.title && given.xaxis.title.text;
    layout.font = { family: themed("sans"), size: 12, color: themed("ink") };
    layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.margin = { l: narrow ? 44 : 58, r: narrow ? 10 : 18, t: 30, b: titled ? 46 : 26 };
    layout.hovermode = given.hovermode || "x unified";
    layout.hoverlabel = {
      bgcolor: themed("card"),
      bordercolor: themed("rule"),
      font: { color: themed("ink"), size: 12 },
      namelength: 28,
    };
    layout.modebar = { bgcolor: "rgba(0,0,0,0)", color: themed("faint"), activecolor: themed("ink") };
    // Scrolling by touch must not zoom a chart.
    layout.dragmode = window.matchMedia("(pointer: coarse)").matches ? false : "zoom";
    layout.legend = Object.assign(legend(1 + 22 / inner, narrow), given.legend);
    for (const name of Object.keys(given)) {
      if (/^[xy]axis\d*$/.test(name)) layout[name] = axis(name, given[name], narrow);
    }
    layout.annotations = (given.annotations || []).map((one) =>
      Object.assign({ font: { color: themed("faint"), size: 12 } }, one)
    );
    if (given.yaxis2) {
      // On narrow screens, above the panel title instead of beside it.
      const top = given.yaxis2.domain[1] + (narrow ? 15 / inner : 0);
      layout.legend2 = Object.assign(legend(top, narrow), { x: 1, xanchor: "right" });
    }
    return layout;
  }

  function draw(holder) {
    const chart = data.charts[Number(holder.dataset.chart)];
    const view = chart.views[Number(holder.dataset.view || 0)];
    const narrow = holder.clientWidth < 560;
    const layout = layoutOf(resolved(view.layout, ""), chart.height, narrow);
    holder.dataset.drawn = document.documentElement.dataset.theme;
    inTurn(holder, () =>
      Plotly.react(holder, resolved(view.traces, ""), layout, settings(narrow))
    );
  }

  // Plotly draws asynchronously: the next call waits for the previous one.
  function inTurn(holder, work) {
    turns.set(holder, (turns.get(holder) || Promise.resolve()).then(work));
  }

  function isVisible(holder) {
    return holder.clientWidth > 0;
  }

  // Charts in hidden panels have no size and are drawn when shown.
  function drawVisible() {
    const theme = document.documentElement.dataset.theme;
    document.querySelectorAll("[data-chart]").forEach(function (holder) {
      if (!isVisible(holder)) return;
      if (holder.dataset.drawn !== theme) draw(holder);
      else inTurn(holder, () => isVisible(holder) && Plotly.Plots.resize(holder));
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
  return { drawVisible: drawVisible };
})();
