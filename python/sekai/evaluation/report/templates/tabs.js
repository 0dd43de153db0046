"use strict";
// One section at a time; all of them on paper.
(function () {
  const root = document.documentElement;
  const tabs = Array.from(document.querySelectorAll('[role="tab"]'));
  const panels = tabs.map((tab) => document.getElementById(tab.getAttribute("aria-controls")));

  function show(place) {
    tabs.forEach(function (tab, at) {
      tab.setAttribute("aria-selected", String(at === place));
      tab.tabIndex = at === place ? 0 : -1;
      panels[at].hidden = at !== place;
    });
    tabs[place].scrollIntoView({ block: "nearest", inline: "nearest" });
    report.drawSeen();
  }

  function choose(place) {
    show(place);
    history.replaceState(null, "", "#" + panels[place].id);
    const top = document.querySelector(".bar-top");
    if (top.getBoundingClientRect().top <= 0) {
      window.scrollTo({ top: document.querySelector("main").offsetTop - top.offsetHeight });
    }
  }

  const moves = { ArrowRight: 1, ArrowLeft: -1 };
  tabs.forEach(function (tab, place) {
    tab.addEventListener("click", () => choose(place));
    tab.addEventListener("keydown", function (event) {
      let next = null;
      if (event.key in moves) next = (place + moves[event.key] + tabs.length) % tabs.length;
      if (event.key === "Home") next = 0;
      if (event.key === "End") next = tabs.length - 1;
      if (next === null) return;
      event.preventDefault();
      choose(next);
      tabs[next].focus();
    });
  });

  function fromAddress() {
    const place = panels.findIndex((panel) => "#" + panel.id === location.hash);
    show(Math.max(place, 0));
  }

  let before = null;
  window.addEventListener("beforeprint", function () {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    root.classList.add("printing");
    report.drawSeen();
  });
  window.addEventListener("afterprint", function () {
    root.dataset.theme = before;
    root.classList.remove("printing");
    report.drawSeen();
  });
  window.addEventListener("hashchange", fromAddress);
  fromAddress();
})();
