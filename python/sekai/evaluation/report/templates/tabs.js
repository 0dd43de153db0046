"use strict";
// Tabs: one section at a time, all sections in print.
(function () {
  const root = document.documentElement;
  const tabs = Array.from(document.querySelectorAll('[role="tab"]'));
  const panels = tabs.map((tab) => document.getElementById(tab.getAttribute("aria-controls")));

  function show(index) {
    tabs.forEach(function (tab, at) {
      tab.setAttribute("aria-selected", String(at === index));
      tab.tabIndex = at === index ? 0 : -1;
      panels[at].hidden = at !== index;
    });
    tabs[index].scrollIntoView({ block: "nearest", inline: "nearest" });
    report.drawVisible();
  }

  function choose(index) {
    show(index);
    history.replaceState(null, "", "#" + panels[index].id);
    const top = document.querySelector(".bar-top");
    if (top.getBoundingClientRect().top <= 0) {
      window.scrollTo({ top: document.querySelector("main").offsetTop - top.offsetHeight });
    }
  }

  const moves = { ArrowRight: 1, ArrowLeft: -1 };
  tabs.forEach(function (tab, index) {
    tab.addEventListener("click", () => choose(index));
    tab.addEventListener("keydown", function (event) {
      let next = null;
      if (event.key in moves) next = (index + moves[event.key] + tabs.length) % tabs.length;
      if (event.key === "Home") next = 0;
      if (event.key === "End") next = tabs.length - 1;
      if (next === null) return;
      event.preventDefault();
      choose(next);
      tabs[next].focus();
    });
  });

  function fromAddress() {
    const index = panels.findIndex((panel) => "#" + panel.id === location.hash);
    show(Math.max(index, 0));
  }

  let before = null;
  window.addEventListener("beforeprint", function () {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    root.classList.add("printing");
    report.drawVisible();
  });
  window.addEventListener("afterprint", function () {
    root.dataset.theme = before;
    root.classList.remove("printing");
    report.drawVisible();
  });
  window.addEventListener("hashchange", fromAddress);
  fromAddress();
})();
