"use strict";
// A training: how far it is, how fast, and how it learns.
watch.training = function (title) {
  const make = watch.make;
  const n = watch.numbers;
  const charts = watch.charts;

  const banner = watch.banner(title);
  const note = make("p", { class: "flag", hidden: true });
  const fill = make("span", { class: "bar-fill enough" });
  const bar = make("div", { class: "bar progress", role: "progressbar", "aria-label": "Steps learnt", "aria-valuemin": 0, "aria-valuemax": 100 }, fill);
  const tiles = watch.tiles(["Done", "Speed", "Time left", "Return of episodes"]);
  const names = make("select", { "aria-label": "What to draw" });
  const reward = charts.holder(290, "Chart: return of episodes");
  const loss = charts.holder(290, "Chart: losses");
  const other = charts.holder(260, "Chart: another number");
  const rewardCard = make("figure", { class: "card" }, make("h3", {}, "Reward"), reward);
  const lossCard = make("figure", { class: "card" }, make("h3", {}, "Loss"), loss);
  const otherCard = make("figure", { class: "card" }, make("div", { class: "chart-head" }, make("h3", {}, "Other numbers"), names), other);
  const facts = make("dl", { class: "facts" });
  let last = null;

  const panel = make(
    "div", {}, banner.frame, note, make("section", { class: "card", "aria-label": "Progress" }, bar, tiles.frame),
    make("div", { class: "columns" }, make("div", {}, rewardCard), make("div", {}, lossCard)),
    otherCard, watch.card("The run", facts)
  );

  const tones = { running: "good", finished: "quiet", interrupted: "open", failed: "bad" };

  function draw(holder, card, columns, label) {
    const found = columns.filter((name) => last.columns[name]);
    card.hidden = !found.length;
    if (!found.length) return;
    const dashes = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
    charts.show(holder, () => [
      found.map((name, at) => ({
        x: last.columns[name].steps, y: last.columns[name].values, name: charts.plain(name),
        mode: last.columns[name].steps.length > 1 ? "lines" : "markers", hovertemplate: "%{y:.4g}",
        line: { color: charts.themed("c" + (at % 8)), width: 2, dash: dashes[at % dashes.length] },
      })),
      { showlegend: true, xaxis: { title: "steps", nticks: 6, exponentformat: "none" }, yaxis: { nticks: 6 } },
    ], "Chart: " + label + "; " + found.map((name) => name + " is " + n.number(last.latest[name])).join(", "));
  }

  function drawAll() {
    const known = Object.keys(last.columns);
    draw(reward, rewardCard, known.filter((name) => /return|reward/.test(name)), "reward");
    draw(loss, lossCard, known.filter((name) => /loss/.test(name)), "loss");
    if ([...names.options].map((one) => one.value).join("\n") !== known.join("\n")) {
      const chosen = names.value || known.find((name) => !/return|reward|loss/.test(name));
      names.replaceChildren(...known.map((name) => make("option", { value: name }, name)));
      if (known.includes(chosen)) names.value = chosen;
    }
    draw(other, otherCard, names.value ? [names.value] : [], names.value);
  }

  function show(found) {
    last = found;
    const share = found.planned_steps > 0 ? Math.min(found.steps / found.planned_steps, 1) : 0;
    banner.fill(tones[found.state] || "open", n.capital(found.state), found.error || "", [found.algorithm, found.env].filter(Boolean).join(" learns "));
    note.hidden = !found.note;
    watch.say(note, found.note);
    fill.style.width = share * 100 + "%";
    bar.setAttribute("aria-valuenow", String(Math.floor(share * 100)));
    const result = Object.keys(found.latest).find((name) => /return|reward/.test(name));
    const isRunning = found.state === "running";
    tiles.fill([
      [n.percent(Math.floor(share * 1000) / 1000), n.count(found.steps) + " of " + n.count(found.planned_steps) + " steps"],
      [found.steps_per_second ? n.count(found.steps_per_second) : "–", isRunning ? (found.steps_per_second ? "steps a second" : "being measured") : "it does not run"],
      [n.duration(found.seconds_left), isRunning ? "until all steps are learnt" : ""],
      [result ? n.number(found.latest[result]) : "–", result ? "the last that was told" : "none has ended yet"],
    ]);
    const rows = [["env", found.env], ["algorithm", found.algorithm], ["seed", found.seed], ["begun", n.clock(found.created)], ["finished", found.finished && n.clock(found.finished)]];
    facts.replaceChildren(...rows.filter((row) => row[1]).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
    drawAll();
  }

  names.addEventListener("change", () => draw(other, otherCard, [names.value], names.value));
  return { panel, show, beat: () => {} };
};
