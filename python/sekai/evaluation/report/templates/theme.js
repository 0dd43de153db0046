"use strict";
// Light or dark theme: the system setting, until the reader chooses.
(function () {
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;

  function apply() {
    const theme = chosen || (system.matches ? "dark" : "light");
    root.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (button) button.setAttribute("aria-pressed", String(theme === "dark"));
    document.dispatchEvent(new Event("themechange"));
  }

  root.classList.add("js");
  apply();
  system.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", function () {
    document.getElementById("theme").addEventListener("click", function () {
      chosen = root.dataset.theme === "dark" ? "light" : "dark";
      apply();
    });
    apply();
  });
})();
