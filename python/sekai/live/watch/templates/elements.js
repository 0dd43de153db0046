"use strict";
// Makes elements. What comes from files becomes text and nothing else: no HTML is ever read here.
const watch = {};
watch.make = function (name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === true) made.setAttribute(key, "");
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, String(value));
  }
  made.append(...children.filter((one) => one !== null && one !== undefined).map((one) => (one instanceof Node ? one : String(one))));
  return made;
};

// Only what differs is written: who reads the page by ear is told of changes alone.
watch.say = function (element, text) {
  if (element.textContent !== String(text)) element.textContent = String(text);
};

// A table in a frame that can be scrolled by keys too; columns that begin with ">" are of numbers.
watch.table = function (label, columns) {
  const make = watch.make;
  const heads = columns.map((one) =>
    make("th", { scope: "col", class: one[0] === ">" ? null : "words" }, one.replace(/^>/, ""))
  );
  const body = make("tbody", {});
  const table = make("table", { class: "plain" }, make("thead", {}, make("tr", {}, ...heads)), body);
  const frame = make("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": label }, table);
  return {
    frame: frame,
    fill: function (rows, empty) {
      const made = rows.map((cells) => make("tr", {}, ...cells.map((cell, place) => cellOf(cell, columns[place], place))));
      if (!made.length) made.push(make("tr", {}, make("td", { colspan: columns.length, class: "quiet words" }, empty)));
      body.replaceChildren(...made);
    },
  };

  function cellOf(cell, column, place) {
    const words = column[0] === ">" ? null : "words";
    if (place === 0) return make("th", { scope: "row", class: words }, cell);
    return make("td", { class: words }, cell);
  }
};

watch.card = function (title, ...children) {
  return watch.make("section", { class: "card", "aria-label": title }, watch.make("h3", {}, title), ...children);
};

// Numbers that stand beside each other: [name, note] each, and what fills them.
watch.tiles = function (names) {
  const make = watch.make;
  const values = names.map((name) => make("span", { class: "tile-value" }, "–"));
  const notes = names.map(() => make("span", { class: "tile-note" }));
  const tiles = names.map((name, at) =>
    make("div", { class: "tile" }, make("span", { class: "tile-name" }, name), values[at], notes[at])
  );
  return {
    frame: make("div", { class: "tiles" }, ...tiles),
    fill: function (rows) {
      rows.forEach(function (row, at) {
        watch.say(values[at], row[0]);
        watch.say(notes[at], row[1] || "");
        values[at].dataset.sign = row[2] || "";
      });
    },
  };
};

// Says in a word, a shape and a colour how it is.
watch.banner = function (title) {
  const make = watch.make;
  const mark = make("span", { class: "state-mark", "aria-hidden": "true" });
  const word = make("strong", { class: "state-word" });
  const reason = make("span", { class: "state-reason" });
  const when = make("span", { class: "state-when" });
  const said = make("p", { class: "state-said", role: "status" }, mark, word, reason);
  const words = make("div", { class: "state-words" }, make("h1", {}, title), said, when);
  const actions = make("div", { class: "state-actions" });
  const frame = make("header", { class: "card state" }, words, actions);
  const marks = { good: "●", open: "▲", bad: "■", quiet: "○" };
  return {
    frame: frame,
    actions: actions,
    fill: function (tone, text, why, time) {
      frame.dataset.tone = tone;
      watch.say(mark, marks[tone]);
      watch.say(word, text);
      watch.say(reason, why || "");
      watch.say(when, time || "");
    },
  };
};
