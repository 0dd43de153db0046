"use strict";
// Stops all trading after a second click, and allows it again for who types the session's name.
watch.killSwitch = function (title, place) {
  const make = watch.make;
  const stop = make("button", { type: "button", class: "danger" }, "Stop trading");
  const allow = make("button", { type: "button", class: "plain-button", hidden: true }, "Allow trading again");

  function asking(name, words, label, isReady) {
    const field = make("input", { type: "text", maxlength: 200, autocomplete: "off", spellcheck: "false" });
    const yes = make("button", { type: "submit", class: name === "kill" ? "danger" : "plain-button" }, label);
    const no = make("button", { type: "button", class: "plain-button" }, "Cancel");
    const wrong = make("p", { class: "wrong", role: "alert" });
    const form = make("form", { method: "dialog" }, ...words(field), wrong, make("p", { class: "buttons" }, yes, no));
    const dialog = make("dialog", { class: "card asking", "aria-label": label }, form);
    const check = () => (yes.disabled = !isReady(field.value));
    no.addEventListener("click", () => dialog.close());
    field.addEventListener("input", check);
    form.addEventListener("submit", async function (event) {
      event.preventDefault();
      yes.disabled = true;
      watch.say(wrong, await send(name, field.value));
      check();
      if (!wrong.textContent) dialog.close();
    });
    return {
      dialog: dialog,
      open: function () {
        field.value = "";
        watch.say(wrong, "");
        check();
        dialog.showModal();
      },
    };
  }

  // Gives what went wrong, or nothing.
  async function send(name, text) {
    const body = name === "kill" ? { source: place, session: title, reason: text } : { source: place, session: title, confirm: text };
    const request = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
    try {
      const answer = await fetch("/api/" + name, request);
      if (!answer.ok) return (name === "kill" ? "Trading is NOT stopped: " : "Trading is still stopped: ") + (await answer.text());
      watch.show(place, await answer.json());
      return "";
    } catch (error) {
      return "The watcher cannot be reached: nothing is known. Put a file KILL into the session's folder.";
    }
  }

  const killing = asking("kill", (field) => [
    make("h3", {}, "Stop all trading of " + title + "?"),
    make("p", {}, "Orders that stand are cancelled, and no position is opened. What is held is kept or sold, as the session was told to do (on_kill)."),
    make("label", {}, "Why (if you like) ", field),
  ], "Yes, stop all trading", () => true);
  const allowing = asking("release", (field) => [
    make("h3", {}, "Allow trading again?"),
    make("label", {}, "Type the name of the session, " + title + " ", field),
  ], "Allow trading again", (text) => text === title);

  stop.addEventListener("click", killing.open);
  allow.addEventListener("click", allowing.open);
  return {
    frame: make("div", { class: "kill" }, stop, allow, killing.dialog, allowing.dialog),
    show: function (isKilled) {
      const held = document.activeElement === stop || document.activeElement === allow;
      stop.hidden = isKilled;
      allow.hidden = !isKilled;
      if (held) (isKilled ? allow : stop).focus();
    },
  };
};
