// The tail of a log: puts the events that the server sends above those that are shown, the newest first.
// What it inserts is the server's markup, whose text is escaped there.
"use strict";

const MOST_SHOWN = 200;
const list = document.getElementById("tail");
const state = document.getElementById("tail-state");
const button = document.getElementById("tail-pause");
let source = null;
let address = list.dataset.stream;

function say(text, kind) {
  state.textContent = text;
  state.className = "tag " + kind;
}

function add(event) {
  const page = new DOMParser().parseFromString(`<ol>${event.data}</ol>`, "text/html");
  const items = [...page.querySelector("ol").children].map((item) => document.adoptNode(item)).reverse();
  list.prepend(...items);
  showTimes(list);
  while (list.children.length > MOST_SHOWN) {
    list.lastElementChild.remove();
  }
  document.getElementById("tail-empty")?.remove();
  const next = new URL(address, location.href);
  next.searchParams.set("after", event.lastEventId);
  address = next.href;
}

function start() {
  source = new EventSource(address);
  source.addEventListener("open", () => { say("live", "ok"); });
  source.addEventListener("message", add);
  source.addEventListener("error", () => { say("not connected; trying again", "warn"); });
}

function stop() {
  source.close();
  source = null;
  say("paused", "");
}

button.hidden = false;
button.addEventListener("click", () => {
  const pause = source !== null;
  if (pause) {
    stop();
  } else {
    start();
  }
  button.textContent = pause ? "Resume" : "Pause";
  button.setAttribute("aria-pressed", String(pause));
});
start();
