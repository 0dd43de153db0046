"use strict";
// A live session: what it holds, what it does, how fast, and whether it still does anything.
watch.session = function (title, place) {
  const make = watch.make;
  const n = watch.numbers;
  const charts = watch.charts;

  const banner = watch.banner(title);
  const kill = watch.killSwitch(title, place);
  banner.actions.append(kill.frame);
  const note = make("p", { class: "flag", hidden: true });
  const tiles = watch.tiles(["Equity", "Profit", "Drawdown", "Cash", "Gross", "Net", "Rows and decisions", "Orders and fills"]);
  const equity = charts.holder(340, "Chart: equity and drawdown");
  const positions = watch.table("Positions", ["asset", ">weight", "share of equity", ">value", ">units", ">price"]);
  const orders = watch.table("Latest orders", ["time", "asset", "state", ">units", ">filled", ">price", "reason", "id"]);
  const latency = watch.table("Latency in milliseconds", ["stage", ">p50", ">p99", ">p99.9", ">largest", ">count"]);
  const stages = make("select", { "aria-label": "Stage to draw" });
  const histogram = charts.holder(190, "Chart: how long it takes");
  const feed = make("dl", { class: "facts" });
  const costs = watch.table("Costs", ["kind", ">paid"]);
  const alerts = make("ul", { class: "flags" });
  let last = null;

  const empty = make("p", { class: "quiet" }, "it is drawn from the second row on");
  const details = make(
    "div", { hidden: true }, tiles.frame,
    make("figure", { class: "card" }, make("h3", {}, "Equity and drawdown"), empty, equity),
    make("div", { class: "columns" },
      make("div", {}, watch.card("Alerts", alerts), watch.card("Positions", positions.frame), watch.card("Costs", costs.frame)),
      make("div", {}, watch.card("Latency, milliseconds", latency.frame,
        make("label", { class: "choice" }, "how long it takes, ", stages), histogram), watch.card("Feed", feed))),
    watch.card("Latest orders", orders.frame)
  );
  const panel = make("div", {}, banner.frame, note, details);

  const tones = { trading: "good", starting: "quiet", stopped: "quiet", halted: "open", killed: "bad", failed: "bad" };

  function state(found) {
    const status = found.status;
    const told = status ? "last told " + n.clock(status.updated) : "";
    if (found.kill !== null) {
      const silent = found.silent_since ? ", and no sign of life since" : "";
      return banner.fill("bad", "Trading is stopped", found.kill, told + silent);
    }
    if (!status) return banner.fill("quiet", "Waiting", found.note, "");
    if (found.silent_since) {
      return banner.fill("bad", "No sign of life since " + n.clock(found.silent_since), "it said it was " + [status.state, status.reason].filter(Boolean).join(": "), told);
    }
    return banner.fill(tones[status.state] || "open", n.capital(status.state), status.reason, told);
  }

  function fillTiles(status) {
    const sign = (value) => (value > 0 ? "gain" : value < 0 ? "loss" : "");
    const before = status.equity - status.profit;
    tiles.fill([
      [n.money(status.equity)],
      [n.signed(status.profit, n.money), before > 0 ? n.signed(status.profit / before, (one) => n.percent(one, 2)) : "", sign(status.profit)],
      [n.percent(status.drawdown, 2), "below the highest"],
      [n.money(status.cash)],
      [n.percent(status.gross), "of equity"],
      [n.percent(status.net), "of equity"],
      [n.count(status.bars) + " / " + n.count(status.decisions)],
      [n.count(status.orders_sent) + " / " + n.count(status.fills), n.count(status.orders_refused) + " refused"],
    ]);
  }

  function drawEquity(status) {
    const x = status.equity_times.map((one) => String(one).replace(/(Z|[+-]\d\d:?\d\d)$/, ""));
    const y = status.equity_values;
    // There is no line through one point.
    equity.hidden = y.length < 2;
    empty.hidden = !equity.hidden;
    if (equity.hidden) return;
    let highest = -Infinity;
    const below = y.map((one) => ((highest = Math.max(highest, one)), highest > 0 ? one / highest - 1 : 0));
    charts.show(equity, () => [
      [
        { x, y, name: "equity", mode: "lines", line: { color: charts.themed("c0"), width: 2 }, hovertemplate: "%{y:,.2f}" },
        { x, y: below, name: "drawdown", yaxis: "y2", mode: "lines", fill: "tozeroy", fillcolor: charts.seenThrough("c1", 0.22), line: { color: charts.themed("c1"), width: 1.5 }, hovertemplate: "%{y:.2%}" },
      ],
      { showlegend: true, xaxis: { type: "date", anchor: "y2" }, yaxis: { domain: [0.34, 1], nticks: 6, exponentformat: "none" }, yaxis2: { domain: [0, 0.26], tickformat: ".1%", nticks: 3, rangemode: "tozero" } },
    ], "Chart: equity is " + n.money(status.equity) + ", drawdown " + n.percent(status.drawdown, 2));
  }

  function weightBar(weight, largest) {
    const fill = make("span", { class: "weight-fill", "data-sign": weight < 0 ? "loss" : "gain" });
    const share = largest > 0 ? Math.min(Math.abs(weight) / largest, 1) * 50 : 0;
    fill.style.width = share + "%";
    fill.style[weight < 0 ? "right" : "left"] = "50%";
    return make("span", { class: "weight", "aria-hidden": "true" }, fill);
  }

  function fillPositions(held) {
    const names = Object.keys(held).sort((one, other) => Math.abs(held[other].weight) - Math.abs(held[one].weight) || (one < other ? -1 : 1));
    const largest = Math.max(0, ...names.map((one) => Math.abs(held[one].weight)));
    positions.fill(names.map((name) => {
      const one = held[name];
      return [name, n.percent(one.weight), weightBar(one.weight, largest), n.money(one.value), n.number(one.units), n.price(one.price)];
    }), "nothing is held");
  }

  function badge(word) {
    const tone = { filled: "good", rejected: "bad", refused: "bad", expired: "bad", abandoned: "bad" }[word] || "";
    return make("span", { class: "badge " + tone }, word);
  }

  function fillOrders(found) {
    orders.fill(found.map((one) => [
      n.clock(one.time), one.asset, badge(one.state), n.number(one.units), n.number(one.filled),
      one.price ? n.price(one.price) : "–", one.reason, make("span", { class: "id" }, one.id),
    ]), "no orders yet");
  }

  const named = (stage) => stage.replace(/_/g, " ");

  function fillLatency(found) {
    const names = Object.keys(found);
    latency.fill(names.map((name) => [named(name), ...["p50", "p99", "p999", "largest"].map((key) => n.milliseconds(found[name].count ? found[name][key] : null)), n.count(found[name].count)]), "nothing was measured yet");
    if ([...stages.options].map((one) => one.value).join("\n") !== names.join("\n")) {
      stages.replaceChildren(...names.map((name) => make("option", { value: name }, named(name))));
    }
    drawLatency();
  }

  function drawLatency() {
    const summary = last && last.status && last.status.latency[stages.value];
    stages.parentElement.hidden = histogram.hidden = !summary;
    if (!summary) return;
    const ends = summary.buckets.map(([end]) => end);
    const below = [0, ...summary.buckets.map(([, count]) => count)];
    const counts = [...ends.map((_, at) => below[at + 1] - below[at]), summary.count - below[below.length - 1]];
    const all = [...ends.map((end) => "≤" + String(end)), ends.length ? ">" + ends[ends.length - 1] : "all"].map(charts.plain);
    // What is empty on both sides leaves no room for the rest.
    const filled = counts.flatMap((count, at) => (count ? [at] : []));
    const first = Math.max((filled[0] || 0) - 1, 0);
    const end = filled.length ? filled[filled.length - 1] + 2 : all.length;
    const words = all.slice(first, end);
    const heights = counts.slice(first, end);
    charts.show(histogram, () => [
      [{ type: "bar", x: words, y: heights, marker: { color: charts.themed("c0") }, hovertemplate: "%{x} ms: %{y:,}<extra></extra>" }],
      { hovermode: "closest", xaxis: { type: "category", nticks: 20, tickangle: "auto" }, yaxis: { nticks: 4, rangemode: "tozero" } },
    ], "Chart: " + named(stages.value) + ", half take at most " + n.milliseconds(summary.p50) + " milliseconds");
  }

  function fillFeed(found) {
    const age = found.last_receive_time ? n.duration(watch.now() - found.last_receive_time / 1e9) + " ago" : "–";
    const link = !found.is_connected ? ["bad", "not connected"] : found.is_stale ? ["bad", "connected, but silent"] : ["good", "connected"];
    const rows = [
      ["connection", make("span", { class: "badge " + link[0] }, link[1])],
      ["last event", age],
      ["received", n.count(found.received)],
      ["reconnects", n.count(found.reconnects)],
      ["gaps", n.count(found.gaps) + ", " + n.count(found.missing) + " events missing"],
      ["late, twice, garbage", [found.late, found.duplicates, found.garbage].map(n.count).join(", ")],
      ["dropped, replaced", [found.dropped, found.conflated].map(n.count).join(", ")],
      ["odd prices, crossed quotes", [found.outliers, found.crossed].map(n.count).join(", ")],
      ["clock jumps", n.count(found.clock_jumps)],
    ];
    feed.replaceChildren(...rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  }

  function fillAlerts(found) {
    const rows = found.map((one) => make("li", { class: "flag" }, one));
    if (!rows.length) rows.push(make("li", { class: "quiet" }, "nothing to tell"));
    alerts.replaceChildren(...rows);
  }

  function show(found) {
    last = found;
    state(found);
    kill.show(found.kill !== null);
    note.hidden = !found.note || !found.status;
    watch.say(note, found.note);
    const status = found.status;
    details.hidden = !status;
    if (!status) return;
    fillTiles(status);
    fillPositions(status.positions);
    fillOrders(status.orders);
    fillLatency(status.latency);
    fillFeed(status.feed);
    fillAlerts(status.alerts);
    costs.fill(Object.entries(status.costs).map(([kind, paid]) => [kind, n.money(paid)]), "nothing was paid yet");
    drawEquity(status);
  }

  stages.addEventListener("change", drawLatency);
  return { panel, show, beat: () => last && last.status && fillFeed(last.status.feed) };
};
