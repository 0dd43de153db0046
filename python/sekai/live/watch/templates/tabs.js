"use strict";
// One panel per source, with tabs if there are several.
(function () {
  const main = document.getElementById("content");
  const list = document.querySelector('[role="tablist"]');
  const views = [];
  const tabs = [];
  const panels = [];
  const titles = [];

  function add(index, data) {
    const view = data.kind === "session" ? watch.session(data.title, index) : watch.training(data.title);
    const id = "source-" + index;
    const tab = watch.make("button", { type: "button", role: "tab", id: "tab-" + index, "aria-controls": id }, data.title);
    const panel = watch.make("section", { class: "panel", id: id, role: "tabpanel", "aria-labelledby": "tab-" + index, hidden: true }, view.panel);
    tab.addEventListener("click", () => choose(index));
    tab.addEventListener("keydown", onKey);
    [views[index], tabs[index], panels[index]] = [view, tab, panel];
    // In display order, whichever arrives first.
    list.replaceChildren(...tabs.filter(Boolean));
    main.replaceChildren(...panels.filter(Boolean));
    list.hidden = tabs.filter(Boolean).length < 2;
    fromHash();
  }

  function choose(index) {
    tabs.forEach(function (tab, at) {
      tab.setAttribute("aria-selected", String(at === index));
      tab.tabIndex = at === index ? 0 : -1;
      panels[at].hidden = at !== index;
    });
    history.replaceState(null, "", "#source-" + index);
    document.title = tabs[index].textContent + " · sekai watch";
    watch.charts.drawVisible();
  }

  function onKey(event) {
    const known = tabs.filter(Boolean);
    const at = known.indexOf(event.currentTarget);
    const targets = { ArrowRight: (at + 1) % known.length, ArrowLeft: (at - 1 + known.length) % known.length, Home: 0, End: known.length - 1 };
    if (!(event.key in targets)) return;
    event.preventDefault();
    known[targets[event.key]].click();
    known[targets[event.key]].focus();
  }

  function fromHash() {
    const index = panels.findIndex((panel) => panel && "#" + panel.id === location.hash);
    choose(index >= 0 ? index : panels.findIndex(Boolean));
  }

  watch.show = function (index, data) {
    // Another server at the same address: a title must not show another session.
    if (views[index] && titles[index] !== data.title) return location.reload();
    titles[index] = data.title;
    if (!views[index]) add(index, data);
    views[index].show(data);
  };
  watch.beat = () => views.filter(Boolean).forEach((view) => view.beat());
  list.hidden = true;
  window.addEventListener("hashchange", fromHash);
})();
