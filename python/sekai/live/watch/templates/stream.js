"use strict";
// Reads the event stream, shows lost connections and reconnects.
(function () {
  const SILENT = 8000;
  const PAUSE = 2000;
  const lost = document.getElementById("lost");
  const connection = document.getElementById("connection");
  const text = document.getElementById("connection-text");
  let source = null;
  let heard = 0;
  let ahead = 0;

  // Time of the server's clock: the local clock may differ.
  watch.now = () => Date.now() / 1000 + ahead;

  function showConnected() {
    heard = Date.now();
    lost.hidden = true;
    connection.dataset.tone = "good";
    watch.setText(text, "live");
  }

  function showLost(message) {
    connection.dataset.tone = "bad";
    watch.setText(text, "lost");
    lost.hidden = false;
    watch.setText(lost, message || "Connection lost, reconnecting. The data shown may be outdated.");
  }

  function listen() {
    if (source) source.close();
    heard = Date.now();
    source = new EventSource("/api/stream");
    source.addEventListener("source", function (event) {
      showConnected();
      watch.show(Number(event.lastEventId), JSON.parse(event.data));
    });
    source.addEventListener("beat", function (event) {
      showConnected();
      ahead = Number(event.data) - Date.now() / 1000;
      watch.beat();
    });
    source.addEventListener("error", reconnect);
  }

  async function reconnect() {
    source.close();
    showLost();
    try {
      const response = await fetch("/api/state");
      if (response.status === 401) showLost("The monitor was restarted: open the address that it printed.");
      else if (response.ok) showLost("Connection lost, reconnecting. There may be too many open pages.");
    } catch (error) {
      // No server: retried below.
    }
    setTimeout(listen, PAUSE);
  }

  // A tunnel may hang without closing.
  setInterval(function () {
    if (source.readyState !== EventSource.CLOSED && Date.now() - heard > SILENT) reconnect();
  }, 1000);
  listen();
})();
