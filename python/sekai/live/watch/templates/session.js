"use strict";
// Live session: state, account, positions, orders, latency and feed health.
watch.session = function (title, index) {
  const make = watch.make;
  const n = watch.numbers;
  const charts = watch.charts;

  const banner = watch.banner(title);
  const kill = watch.killSwitch(title, index);
  banner.actions.append(kill.frame);
  const note = make("p", { class: "flag", hidden: true });
  const tiles = watch.tiles(["Equity", "Profit", "Drawdown", "Cash", "Gross", "Net", "Bars and decisions", "Orders and fills"]);
  const equity = charts.holder(340, "Chart: equity and drawdown");
  const positions = watch.table("Positions", ["asset", ">weight", "share of equity", ">value", ">units", ">price"]);
  const orders = watch.table("Latest orders", ["time", "asset", "state", ">units", ">filled", ">price", "reason", "id"]);
  const latency = watch.table("Latency in milliseconds", ["stage", ">p50", ">p99", ">p99.9", ">max", ">count"]);
  const stages = make("select", { "aria-label": "Latency stage" });
  const histogram = charts.holder(190, "Chart: latency histogram");
  const feed = make("dl", { class: "facts" });
  const costs = watch.table("Costs", ["kind", ">amount"]);
  const alerts = make("ul", { class: "flags" });
  let last = null;

  const empty = make("p", { class: "quiet" }, "shown from the second bar on");
  const details = make(
    "div", { hidden: true }, tiles.frame,
    make("figure", { class: "card" }, make("h3", {}, "Equity and drawdown"), empty, equity),
    make("div", { class: "columns" },
      make("div", {}, watch.card("Alerts", alerts), watch.card("Positions", positions.frame), watch.card("Costs", costs.frame)),
      make("div", {}, watch.card("Latency, milliseconds", latency.frame,
        make("label", { class: "choice" }, "histogram of ", stages), histogram), watch.card("Feed", feed))),
    watch.card("Latest orders", orders.frame)
  );
  const panel = make("div", {}, banner.frame, note, details);

  const tones = { trading: "good", starting: "quiet", stopped: "quiet", reducing: "open", halted: "open", killed: "bad", failed: "bad" };
  const said = (...parts) => parts.filter(Boolean).join("; ");

  function silence(data) {
    if (!data.silent_since) return "";
    return "no sign of life for " + n.duration(Math.max(0, watch.now() - Date.parse(data.silent_since) / 1000));
  }

  // The kill file is a request: trading is stopped once the session confirms it.
  function killState(data, updated) {
    const status = data.status || {};
    const silent = silence(data);
    const requested = status.kill_requested ? "requested at " + n.clock(status.kill_requested) : "requested";
    const reason = said(data.kill, status.kill_detail);
    if (status.kill_obeyed) {
      return banner.fill("bad", "Trading stopped", reason, said(requested + ", obeyed at " + n.clock(status.kill_obeyed), silent, updated));
    }
    if (!data.status || status.state === "stopped" || status.state === "failed") {
      return banner.fill("bad", "Kill switch on, session not running", reason, said(data.note, updated));
    }
    return banner.fill("bad", "Kill requested, NOT obeyed yet", reason, said(silent && silent + ": trading may go on", requested, updated));
  }

  function state(data) {
    const status = data.status;
    const updated = status ? "last update " + n.clock(status.updated) : "";
    if (data.kill !== null || (status && status.kill_requested)) return killState(data, updated);
    if (!status) return banner.fill("quiet", "Waiting", data.note, "");
    if (data.silent_since) {
      return banner.fill("bad", n.capital(silence(data)), "last state: " + [status.state, status.reason].filter(Boolean).join(": "), updated);
    }
    return banner.fill(tones[status.state] || "open", n.capital(status.state), status.reason, updated);
  }

  function fillTiles(status) {
    const sign = (value) => (value > 0 ? "gain" : value < 0 ? "loss" : "");
    const before = status.equity - status.profit;
    tiles.fill([
      [n.money(status.equity)],
      [n.signed(status.profit, n.money), before > 0 ? n.signed(status.profit / before, (item) => n.percent(item, 2)) : "", sign(status.profit)],
      [n.percent(status.drawdown, 2), "from the highest equity"],
      [n.money(status.cash)],
      [n.percent(status.gross), "of equity"],
      [n.percent(status.net), "of equity"],
      [n.count(status.bars) + " / " + n.count(status.decisions)],
      [n.count(status.orders_sent) + " / " + n.count(status.fills), n.count(status.orders_refused) + " rejected"],
    ]);
  }

  function drawEquity(status) {
    const x = status.equity_times.map((item) => String(item).replace(/(Z|[+-]\d\d:?\d\d)$/, ""));
    const y = status.equity_values;
    // One point makes no line.
    equity.hidden = y.length < 2;
    empty.hidden = !equity.hidden;
    if (equity.hidden) return;
    let highest = -Infinity;
    const below = y.map((item) => ((highest = Math.max(highest, item)), highest > 0 ? item / highest - 1 : 0));
    charts.show(equity, () => [
      [
        { x, y, name: "equity", mode: "lines", line: { color: charts.color("c0"), width: 2 }, hovertemplate: "%{y:,.2f}" },
        { x, y: below, name: "drawdown", yaxis: "y2", mode: "lines", fill: "tozeroy", fillcolor: charts.transparent("c1", 0.22), line: { color: charts.color("c1"), width: 1.5 }, hovertemplate: "%{y:.2%}" },
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

  function fillPositions(held, decimals) {
    const names = Object.keys(held).sort((first, second) => Math.abs(held[second].weight) - Math.abs(held[first].weight) || (first < second ? -1 : 1));
    const largest = Math.max(0, ...names.map((item) => Math.abs(held[item].weight)));
    positions.fill(names.map((name) => {
      const position = held[name];
      return [name, n.percent(position.weight), weightBar(position.weight, largest), n.money(position.value), n.number(position.units), n.price(position.price, decimals[name])];
    }), "no positions");
  }

  function badge(word) {
    const tone = { filled: "good", rejected: "bad", refused: "bad", expired: "bad", abandoned: "bad" }[word] || "";
    return make("span", { class: "badge " + tone }, word);
  }

  function fillOrders(data, decimals) {
    orders.fill(data.map((item) => [
      n.clock(item.time), item.asset, badge(item.state), n.number(item.units), n.number(item.filled),
      item.price ? n.price(item.price, decimals[item.asset]) : "–", item.reason, make("span", { class: "id" }, item.id),
    ]), "no orders yet");
  }

  const label = (stage) => stage.replace(/_/g, " ");

  function fillLatency(data) {
    const names = Object.keys(data);
    latency.fill(names.map((name) => [label(name), ...["p50", "p99", "p999", "largest"].map((key) => n.milliseconds(data[name].count ? data[name][key] : null)), n.count(data[name].count)]), "no measurements yet");
    if ([...stages.options].map((item) => item.value).join("\n") !== names.join("\n")) {
      stages.replaceChildren(...names.map((name) => make("option", { value: name }, label(name))));
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
    // Crop empty buckets on both sides.
    const filled = counts.flatMap((count, at) => (count ? [at] : []));
    const first = Math.max((filled[0] || 0) - 1, 0);
    const end = filled.length ? filled[filled.length - 1] + 2 : all.length;
    const labels = all.slice(first, end);
    const heights = counts.slice(first, end);
    charts.show(histogram, () => [
      [{ type: "bar", x: labels, y: heights, marker: { color: charts.color("c0") }, hovertemplate: "%{x} ms: %{y:,}<extra></extra>" }],
      { hovermode: "closest", xaxis: { type: "category", nticks: 20, tickangle: "auto" }, yaxis: { nticks: 4, rangemode: "tozero" } },
    ], "Chart: " + label(stages.value) + ", median " + n.milliseconds(summary.p50) + " milliseconds");
  }

  function fillFeed(data) {
    const age = data.last_receive_time ? n.duration(watch.now() - data.last_receive_time / 1e9) + " ago" : "–";
    const link = !data.is_connected ? ["bad", "not connected"] : data.is_stale ? ["bad", "connected, stale"] : ["good", "connected"];
    const rows = [
      ["connection", make("span", { class: "badge " + link[0] }, link[1])],
      ["last event", age],
      ["received", n.count(data.received)],
      ["reconnects", n.count(data.reconnects)],
      ["gaps", n.count(data.gaps) + ", " + n.count(data.missing) + " events missing"],
      ["late, duplicate, malformed", [data.late, data.duplicates, data.garbage].map(n.count).join(", ")],
      ["dropped, conflated", [data.dropped, data.conflated].map(n.count).join(", ")],
      ["price outliers, crossed quotes", [data.outliers, data.crossed].map(n.count).join(", ")],
      ["clock jumps", n.count(data.clock_jumps)],
    ];
    feed.replaceChildren(...rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  }

  function fillAlerts(data) {
    const rows = data.map((item) => make("li", { class: "flag" }, item));
    if (!rows.length) rows.push(make("li", { class: "quiet" }, "no alerts"));
    alerts.replaceChildren(...rows);
  }

  function show(data) {
    last = data;
    state(data);
    kill.show(data.kill !== null);
    note.hidden = !data.note || !data.status;
    watch.setText(note, data.note);
    const status = data.status;
    details.hidden = !status;
    if (!status) return;
    fillTiles(status);
    fillPositions(status.positions, status.price_decimals || {});
    fillOrders(status.orders, status.price_decimals || {});
    fillLatency(status.latency);
    fillFeed(status.feed);
    fillAlerts(status.alerts);
    costs.fill(Object.entries(status.costs).map(([kind, paid]) => [kind, n.money(paid)]), "no costs yet");
    drawEquity(status);
  }

  stages.addEventListener("change", drawLatency);
  function beat() {
    if (!last) return;
    // Ages grow while nothing arrives.
    if (last.silent_since) state(last);
    if (last.status) fillFeed(last.status.feed);
  }

  return { panel, show, beat };
};
