"use strict";
// Kill switch: stops trading after a confirmation; releasing needs the name of the session.
watch.killSwitch = function (title, index) {
  const make = watch.make;
  const stop = make("button", { type: "button", class: "danger" }, "Stop trading");
  const release = make("button", { type: "button", class: "plain-button", hidden: true }, "Resume trading");

  function confirmation(name, content, label, isReady) {
    const field = make("input", { type: "text", maxlength: 200, autocomplete: "off", spellcheck: "false" });
    const submit = make("button", { type: "submit", class: name === "kill" ? "danger" : "plain-button" }, label);
    const cancel = make("button", { type: "button", class: "plain-button" }, "Cancel");
    const error = make("p", { class: "wrong", role: "alert" });
    const form = make("form", { method: "dialog" }, ...content(field), error, make("p", { class: "buttons" }, submit, cancel));
    const dialog = make("dialog", { class: "card asking", "aria-label": label }, form);
    const check = () => (submit.disabled = !isReady(field.value));
    cancel.addEventListener("click", () => dialog.close());
    field.addEventListener("input", check);
    form.addEventListener("submit", async function (event) {
      event.preventDefault();
      submit.disabled = true;
      watch.setText(error, await send(name, field.value));
      check();
      if (!error.textContent) dialog.close();
    });
    return {
      dialog: dialog,
      open: function () {
        field.value = "";
        watch.setText(error, "");
        check();
        dialog.showModal();
      },
    };
  }

  // Returns an error message, or an empty text.
  async function send(name, text) {
    const body = name === "kill" ? { source: index, session: title, reason: text } : { source: index, session: title, confirm: text };
    const request = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
    try {
      const response = await fetch("/api/" + name, request);
      if (!response.ok) return (name === "kill" ? "Trading is NOT stopped: " : "Trading is still stopped: ") + (await response.text());
      watch.show(index, await response.json());
      return "";
    } catch (failure) {
      return "Cannot reach the monitor: the state of the kill switch is unknown. Create a file KILL in the folder of the session.";
    }
  }

  const killDialog = confirmation("kill", (field) => [
    make("h3", {}, "Stop all trading of " + title + "?"),
    make("p", {}, "Open orders are cancelled, and no position is opened. Positions are kept or closed, according to the on_kill setting of the session. The page shows when the session has obeyed."),
    make("label", {}, "Reason (optional) ", field),
  ], "Yes, stop all trading", () => true);
  const releaseDialog = confirmation("release", (field) => [
    make("h3", {}, "Resume trading?"),
    make("label", {}, "Confirm with the name of the session, " + title + ": ", field),
  ], "Resume trading", (text) => text === title);

  stop.addEventListener("click", killDialog.open);
  release.addEventListener("click", releaseDialog.open);
  return {
    frame: make("div", { class: "kill" }, stop, release, killDialog.dialog, releaseDialog.dialog),
    show: function (isKilled) {
      const hadFocus = document.activeElement === stop || document.activeElement === release;
      stop.hidden = isKilled;
      release.hidden = !isKilled;
      if (hadFocus) (isKilled ? release : stop).focus();
    },
  };
};
