"use strict";
// Training run: progress, speed and learning curves.
watch.training = function (title) {
  const make = watch.make;
  const n = watch.numbers;
  const charts = watch.charts;

  const banner = watch.banner(title);
  const note = make("p", { class: "flag", hidden: true });
  const fill = make("span", { class: "bar-fill enough" });
  const bar = make("div", { class: "bar progress", role: "progressbar", "aria-label": "Training progress", "aria-valuemin": 0, "aria-valuemax": 100 }, fill);
  const tiles = watch.tiles(["Progress", "Speed", "Time left", "Episode return"]);
  const names = make("select", { "aria-label": "Metric" });
  const reward = charts.holder(290, "Chart: episode return");
  const loss = charts.holder(290, "Chart: losses");
  const other = charts.holder(260, "Chart: selected metric");
  const rewardCard = make("figure", { class: "card" }, make("h3", {}, "Reward"), reward);
  const lossCard = make("figure", { class: "card" }, make("h3", {}, "Loss"), loss);
  const otherCard = make("figure", { class: "card" }, make("div", { class: "chart-head" }, make("h3", {}, "Other metrics"), names), other);
  const facts = make("dl", { class: "facts" });
  let last = null;

  const panel = make(
    "div", {}, banner.frame, note, make("section", { class: "card", "aria-label": "Progress" }, bar, tiles.frame),
    make("div", { class: "columns" }, make("div", {}, rewardCard), make("div", {}, lossCard)),
    otherCard, watch.card("Run", facts)
  );

  const tones = { running: "good", finished: "quiet", interrupted: "open", failed: "bad" };

  function draw(holder, card, columns, label) {
    const data = columns.filter((name) => last.columns[name]);
    card.hidden = !data.length;
    if (!data.length) return;
    const dashes = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
    charts.show(holder, () => [
      data.map((name, at) => ({
        x: last.columns[name].steps, y: last.columns[name].values, name: charts.plain(name),
        mode: last.columns[name].steps.length > 1 ? "lines" : "markers", hovertemplate: "%{y:.4g}",
        line: { color: charts.color("c" + (at % 8)), width: 2, dash: dashes[at % dashes.length] },
      })),
      { showlegend: true, xaxis: { title: "steps", nticks: 6, exponentformat: "none" }, yaxis: { nticks: 6 } },
    ], "Chart: " + label + "; " + data.map((name) => name + " is " + n.number(last.latest[name])).join(", "));
  }

  function drawAll() {
    const known = Object.keys(last.columns);
    draw(reward, rewardCard, known.filter((name) => /return|reward/.test(name)), "reward");
    draw(loss, lossCard, known.filter((name) => /loss/.test(name)), "loss");
    if ([...names.options].map((item) => item.value).join("\n") !== known.join("\n")) {
      const chosen = names.value || known.find((name) => !/return|reward|loss/.test(name));
      names.replaceChildren(...known.map((name) => make("option", { value: name }, name)));
      if (known.includes(chosen)) names.value = chosen;
    }
    draw(other, otherCard, names.value ? [names.value] : [], names.value);
  }

  function show(data) {
    last = data;
    const share = data.planned_steps > 0 ? Math.min(data.steps / data.planned_steps, 1) : 0;
    banner.fill(tones[data.state] || "open", n.capital(data.state), data.error || "", [data.algorithm, data.env].filter(Boolean).join(" on "));
    note.hidden = !data.note;
    watch.setText(note, data.note);
    fill.style.width = share * 100 + "%";
    bar.setAttribute("aria-valuenow", String(Math.floor(share * 100)));
    const result = Object.keys(data.latest).find((name) => /return|reward/.test(name));
    const isRunning = data.state === "running";
    tiles.fill([
      [n.percent(Math.floor(share * 1000) / 1000), n.count(data.steps) + " of " + n.count(data.planned_steps) + " steps"],
      [data.steps_per_second ? n.count(data.steps_per_second) : "–", isRunning ? (data.steps_per_second ? "steps per second" : "measuring") : "not running"],
      [n.duration(data.seconds_left), isRunning ? "until all steps are done" : ""],
      [result ? n.number(data.latest[result]) : "–", result ? "last value" : "no finished episode yet"],
    ]);
    const rows = [["env", data.env], ["algorithm", data.algorithm], ["seed", data.seed], ["started", n.clock(data.created)], ["finished", data.finished && n.clock(data.finished)]];
    facts.replaceChildren(...rows.filter((row) => row[1]).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
    drawAll();
  }

  names.addEventListener("change", () => draw(other, otherCard, [names.value], names.value));
  return { panel, show, beat: () => {} };
};
