"use strict";
// A panel for each source; tabs where there are several.
(function () {
  const main = document.getElementById("content");
  const list = document.querySelector('[role="tablist"]');
  const views = [];
  const tabs = [];
  const panels = [];
  const titles = [];

  function add(place, found) {
    const view = found.kind === "session" ? watch.session(found.title, place) : watch.training(found.title);
    const id = "source-" + place;
    const tab = watch.make("button", { type: "button", role: "tab", id: "tab-" + place, "aria-controls": id }, found.title);
    const panel = watch.make("section", { class: "panel", id: id, role: "tabpanel", "aria-labelledby": "tab-" + place, hidden: true }, view.panel);
    tab.addEventListener("click", () => choose(place));
    tab.addEventListener("keydown", moved);
    [views[place], tabs[place], panels[place]] = [view, tab, panel];
    // In their order, whichever is told of first.
    list.replaceChildren(...tabs.filter(Boolean));
    main.replaceChildren(...panels.filter(Boolean));
    list.hidden = tabs.filter(Boolean).length < 2;
    fromAddress();
  }

  function choose(place) {
    tabs.forEach(function (tab, at) {
      tab.setAttribute("aria-selected", String(at === place));
      tab.tabIndex = at === place ? 0 : -1;
      panels[at].hidden = at !== place;
    });
    history.replaceState(null, "", "#source-" + place);
    document.title = tabs[place].textContent + " · sekai watch";
    watch.charts.drawSeen();
  }

  function moved(event) {
    const known = tabs.filter(Boolean);
    const at = known.indexOf(event.currentTarget);
    const places = { ArrowRight: (at + 1) % known.length, ArrowLeft: (at - 1 + known.length) % known.length, Home: 0, End: known.length - 1 };
    if (!(event.key in places)) return;
    event.preventDefault();
    known[places[event.key]].click();
    known[places[event.key]].focus();
  }

  function fromAddress() {
    const place = panels.findIndex((panel) => panel && "#" + panel.id === location.hash);
    choose(place >= 0 ? place : panels.findIndex(Boolean));
  }

  watch.show = function (place, found) {
    // Another watcher at the same address: under a title there must be no other session.
    if (views[place] && titles[place] !== found.title) return location.reload();
    titles[place] = found.title;
    if (!views[place]) add(place, found);
    views[place].show(found);
  };
  watch.beat = () => views.filter(Boolean).forEach((view) => view.beat());
  list.hidden = true;
  window.addEventListener("hashchange", fromAddress);
})();
