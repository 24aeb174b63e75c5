// What the pages do in the browser: times in the viewer's zone, and parts that update themselves.
// Every page works without it. It never inserts text as markup that the server has not escaped.
"use strict";

const zone = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

function showTimes(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const at = new Date(element.dateTime);
    if (!Number.isNaN(at.valueOf())) {
      element.textContent = zone.format(at);
    }
  }
}

// ---- updates: an element with an id and data-live (seconds between two updates, 5 if it says none) is replaced by the
// ---- one of the same id in the page's latest version. What is open stays open, what has the focus keeps it.

const PAUSED = "rowbus-paused";
let paused = localStorage.getItem(PAUSED) === "1";

function isBusy(element) {
  // The user fills in a form in it, has selected text in it, or is pressing something in it.
  const active = document.activeElement;
  const typing = element.contains(active) && active.matches("input:not([type=hidden]), select, textarea");
  const ticked = element.querySelector("input[type=checkbox]:checked") !== null;
  const selection = document.getSelection();
  const selected = selection !== null && !selection.isCollapsed && element.contains(selection.anchorNode);
  const pressing = element.querySelector(":active") !== null;
  return typing || ticked || selected || pressing;
}

function keep(old, fresh) {
  for (const details of old.querySelectorAll("details[id]")) {
    const same = fresh.querySelector("#" + CSS.escape(details.id));
    if (same !== null) {
      same.open = details.open;
    }
  }
  for (const region of old.querySelectorAll("[id].scroll")) {
    const same = fresh.querySelector("#" + CSS.escape(region.id));
    if (same !== null) {
      requestAnimationFrame(() => { same.scrollLeft = region.scrollLeft; });
    }
  }
}

function position(element) {
  // Where the focus is among what can have it, to find it again in the new version.
  const found = [...element.querySelectorAll("a[href], button, summary, [tabindex]")];
  return found.indexOf(document.activeElement);
}

function replace(old, fresh) {
  const focused = position(old);
  keep(old, fresh);
  showTimes(fresh);
  const left = old.scrollLeft;
  old.replaceWith(fresh);
  fresh.scrollLeft = left;
  if (focused >= 0) {
    const again = [...fresh.querySelectorAll("a[href], button, summary, [tabindex]")][focused];
    if (again !== undefined) {
      again.focus({ preventScroll: true });
    }
  }
}

async function update(elements) {
  const answer = await fetch(location.href, { headers: { accept: "text/html" }, credentials: "same-origin" });
  if (!answer.ok) {
    return;
  }
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const old of paused ? [] : elements) { // or the user paused it while the answer came
    const fresh = page.getElementById(old.id);
    if (fresh !== null && !isBusy(old)) {
      replace(old, document.adoptNode(fresh));
    }
  }
}

function period(element) {
  return Math.max(Number(element.dataset.live) || 5, 1);
}

async function keepUpdating() {
  for (let second = 1; ; second += 1) {
    await new Promise((done) => { setTimeout(done, 1000); });
    if (paused || document.hidden) {
      continue;
    }
    const due = [...document.querySelectorAll("[data-live][id]")].filter((one) => second % period(one) === 0);
    if (due.length > 0) {
      try {
        await update(due);
        document.body.classList.remove("offline");
      } catch {
        document.body.classList.add("offline");
      }
    }
  }
}

function offerPause() {
  const button = document.getElementById("pause");
  if (button === null || document.querySelector("[data-live]") === null) {
    return;
  }
  const show = () => {
    button.hidden = false;
    button.textContent = paused ? "Resume updates" : "Pause updates";
    button.setAttribute("aria-pressed", String(paused));
  };
  button.addEventListener("click", () => {
    paused = !paused;
    localStorage.setItem(PAUSED, paused ? "1" : "0");
    show();
  });
  show();
}

// ---- lists: a box with data-checks="name" ticks all boxes of that name.

document.addEventListener("change", (event) => {
  const name = event.target.dataset ? event.target.dataset.checks : undefined;
  if (name !== undefined) {
    for (const box of document.querySelectorAll(`input[type=checkbox][name="${CSS.escape(name)}"]`)) {
      box.checked = event.target.checked;
    }
  }
});

showTimes(document);
document.getElementById("zone")?.replaceChildren(zone.resolvedOptions().timeZone);
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
offerPause();
keepUpdating();
