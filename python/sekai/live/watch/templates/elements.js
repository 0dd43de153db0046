"use strict";
// Creates elements. Content from files is inserted as text, never as HTML.
const watch = {};
watch.make = function (name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === true) element.setAttribute(key, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined).map((child) => (child instanceof Node ? child : String(child))));
  return element;
};

// Sets the text only if it differs: screen readers announce changes alone.
watch.setText = function (element, text) {
  if (element.textContent !== String(text)) element.textContent = String(text);
};

// Table in a scrollable frame; columns that begin with ">" are numeric.
watch.table = function (label, columns) {
  const make = watch.make;
  const heads = columns.map((column) =>
    make("th", { scope: "col", class: column[0] === ">" ? null : "words" }, column.replace(/^>/, ""))
  );
  const body = make("tbody", {});
  const table = make("table", { class: "plain" }, make("thead", {}, make("tr", {}, ...heads)), body);
  const frame = make("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": label }, table);
  return {
    frame: frame,
    fill: function (rows, empty) {
      const elements = rows.map((cells) => make("tr", {}, ...cells.map((cell, index) => cellOf(cell, columns[index], index))));
      if (!elements.length) elements.push(make("tr", {}, make("td", { colspan: columns.length, class: "quiet words" }, empty)));
      body.replaceChildren(...elements);
    },
  };

  function cellOf(cell, column, index) {
    const kind = column[0] === ">" ? null : "words";
    if (index === 0) return make("th", { scope: "row", class: kind }, cell);
    return make("td", { class: kind }, cell);
  }
};

watch.card = function (title, ...children) {
  return watch.make("section", { class: "card", "aria-label": title }, watch.make("h3", {}, title), ...children);
};

// Tiles with a name, a value and a note each.
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
        watch.setText(values[at], row[0]);
        watch.setText(notes[at], row[1] || "");
        values[at].dataset.sign = row[2] || "";
      });
    },
  };
};

// State banner: word, shape and color.
watch.banner = function (title) {
  const make = watch.make;
  const mark = make("span", { class: "state-mark", "aria-hidden": "true" });
  const word = make("strong", { class: "state-word" });
  const reason = make("span", { class: "state-reason" });
  const when = make("span", { class: "state-when" });
  const statement = make("p", { class: "state-said", role: "status" }, mark, word, reason);
  const text = make("div", { class: "state-words" }, make("h1", {}, title), statement, when);
  const actions = make("div", { class: "state-actions" });
  const frame = make("header", { class: "card state" }, text, actions);
  const marks = { good: "●", open: "▲", bad: "■", quiet: "○" };
  return {
    frame: frame,
    actions: actions,
    fill: function (tone, state, detail, time) {
      frame.dataset.tone = tone;
      watch.setText(mark, marks[tone]);
      watch.setText(word, state);
      watch.setText(reason, detail || "");
      watch.setText(when, time || "");
    },
  };
};
