"use strict";
// Listens to the watcher, says so when it is gone, and tries again.
(function () {
  const SILENT = 8000;
  const PAUSE = 2000;
  const lost = document.getElementById("lost");
  const connection = document.getElementById("connection");
  const words = document.getElementById("connection-text");
  let source = null;
  let heard = 0;
  let ahead = 0;

  // By the watcher's clock: this machine's may be another.
  watch.now = () => Date.now() / 1000 + ahead;

  function isThere() {
    heard = Date.now();
    lost.hidden = true;
    connection.dataset.tone = "good";
    watch.say(words, "live");
  }

  function isLost(why) {
    connection.dataset.tone = "bad";
    watch.say(words, "lost");
    lost.hidden = false;
    watch.say(lost, why || "Connection lost, trying again. What is shown may be old.");
  }

  function listen() {
    if (source) source.close();
    heard = Date.now();
    source = new EventSource("/api/stream");
    source.addEventListener("source", function (event) {
      isThere();
      watch.show(Number(event.lastEventId), JSON.parse(event.data));
    });
    source.addEventListener("beat", function (event) {
      isThere();
      ahead = Number(event.data) - Date.now() / 1000;
      watch.beat();
    });
    source.addEventListener("error", failed);
  }

  async function failed() {
    source.close();
    isLost();
    try {
      const answer = await fetch("/api/state");
      if (answer.status === 401) isLost("This watcher was started anew: open the address that it printed.");
      else if (answer.ok) isLost("Connection lost, trying again. Perhaps too many pages are open.");
    } catch (error) {
      // Nobody there: tried again below.
    }
    setTimeout(listen, PAUSE);
  }

  // A tunnel may hang without an end.
  setInterval(function () {
    if (source.readyState !== EventSource.CLOSED && Date.now() - heard > SILENT) failed();
  }, 1000);
  listen();
})();
