// What every page does: hear what has changed, tick its clocks, keys, questions before acts, words about them.
"use strict";

const rota = (() => {
  const one = (query, root = document) => root.querySelector(query);
  const all = (query, root = document) => [...root.querySelectorAll(query)];

  // -- clocks: the same words as `rota.model.units.format_duration` ------------------------------

  const UNITS = [["d", 86400, "h", 3600], ["h", 3600, "m", 60], ["m", 60, "s", 1]];

  function duration(seconds) {
    const whole = Math.round(Math.abs(seconds));
    for (const [unit, size, small, part] of UNITS) {
      if (whole >= size) {
        const rest = Math.floor((whole % size) / part);
        return `${Math.floor(whole / size)}${unit}${rest ? ` ${rest}${small}` : ""}`;
      }
    }
    return `${whole}s`;
  }

  function ahead(left) {
    if (Math.abs(left) < 1) return "now";
    return left > 0 ? `in ${duration(left)}` : `${duration(left)} ago`;
  }

  // The moment by the cluster's clock, of which every answer tells: who sets the clock here moves nothing.

  let told = Number(document.documentElement.dataset.now), toldAt = performance.now();

  document.addEventListener("htmx:afterRequest", (event) => {
    const now = Number(event.detail.xhr.getResponseHeader("Rota-Now"));
    if (now) [told, toldAt] = [now, performance.now()];
  });

  function tick(root = document) {
    const now = told + (performance.now() - toldAt) / 1000;
    for (const time of all("time[data-at]", root)) write(time, ahead(time.dataset.at - now));
    for (const time of all("time[data-since]", root)) write(time, duration(Math.max(0, now - time.dataset.since)));
  }

  function write(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }

  // -- the stream: one for each page that is looked at -------------------------------------------

  let stream = null, heard = Date.now(), isLost = false, wasOpen = false, pause = 0, waiting = null;
  const gathered = { topics: new Set(), jobs: new Set() };
  const SLOWEST_MS = 10000, SILENT_MS = 40000; // a beat comes every 15 s
  let alive = performance.now();

  function connect() {
    if (stream || !document.body.dataset.stream || document.hidden) return;
    stream = new EventSource(document.body.dataset.stream);
    alive = performance.now();
    stream.addEventListener("hello", (event) => found(event.data === "true"));
    for (const event of ["hello", "changed", "beat"]) stream.addEventListener(event, () => { alive = performance.now(); });
    stream.addEventListener("changed", (event) => {
      heard = Date.now();
      const { topics, jobs } = JSON.parse(event.data);
      topics.forEach((topic) => gathered.topics.add(topic));
      (jobs || named()).forEach((job) => gathered.jobs.add(job));
      if (waiting === null) waiting = setTimeout(tell, pause);
    });
    stream.onerror = () => {
      lost();
      if (stream.readyState === EventSource.CLOSED) {
        disconnect();
        setTimeout(again, 2000);
      }
    };
  }

  function disconnect() {
    if (stream) stream.close();
    stream = null;
  }

  // A connection that dies without a word (a frozen machine, a network that is gone) ends no stream.

  function watch() {
    if (!stream || performance.now() - alive < SILENT_MS) return;
    lost();
    disconnect();
    connect();
  }

  async function again() {
    try {
      const answer = await fetch("/v1/whoami", { headers: { accept: "application/json" } });
      if (answer.status === 401) return signIn();
    } catch (_) { /* nobody is there yet */ }
    connect();
  }

  function signIn() {
    location.href = `/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`;
  }

  function named() {
    return all("[data-job]").map((element) => element.dataset.job);
  }

  function tell() {
    waiting = null;
    const { topics, jobs } = gathered;
    for (const topic of topics) fire(`live-${topic}`);
    for (const job of jobs) fire(`live-job-${job}`);
    topics.clear();
    jobs.clear();
  }

  function fire(name) {
    document.body.dispatchEvent(new CustomEvent(name));
  }

  function lost() {
    if (isLost) return;
    isLost = true;
    setTimeout(() => {
      if (!isLost) return;
      const banner = one("#lost");
      write(one("time", banner), new Date(heard).toLocaleTimeString());
      banner.hidden = false;
      document.body.classList.add("stale");
    }, 1500);
  }

  function found(isBehind) {
    heard = Date.now();
    const wasAway = isLost || wasOpen;
    isLost = false;
    wasOpen = true;
    one("#lost").hidden = true;
    document.body.classList.remove("stale");
    document.body.dataset.hears = "yes";
    if (wasAway || isBehind) fire("live-all");
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));

  // -- parts that fetch themselves again ---------------------------------------------------------

  // Nothing is laid out anew under a pressed pointer: a click has to end on the button on which it began.

  let pressed = null, isOwed = false;
  document.addEventListener("pointerdown", (event) => { pressed = event.target; });
  for (const end of ["pointerup", "pointercancel"]) document.addEventListener(end, released);

  function released() {
    pressed = null;
    if (isOwed) setTimeout(() => fire("live-all"));
    isOwed = false;
  }

  let focused = null;
  const unfolded = new Map();
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (pressed && event.detail.target.contains(pressed)) {
      event.detail.shouldSwap = false;
      isOwed = true;
      return;
    }
    for (const one of all("details[id]", event.detail.target)) unfolded.set(one.id, one.open);
    const inside = document.activeElement;
    focused = event.detail.target.contains(inside) ? keyOf(inside) : null;
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    tick(event.detail.target.isConnected ? event.detail.target : document);
    for (const one of all("details[id]", event.detail.target)) one.open = unfolded.get(one.id) ?? one.open;
    if (!focused || document.activeElement !== document.body) return;
    const again = all("[data-row], [id]").find((element) => keyOf(element) === focused);
    const target = again && (again.matches("tr") ? one("a, button", again) : again);
    if (target) target.focus({ preventScroll: true });
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    const { elt, requestConfig } = event.detail;
    const started = requestConfig && requestConfig.rotaStarted;
    if (started && elt.hasAttribute("hx-get")) pause = Math.min(SLOWEST_MS, 3 * (performance.now() - started));
  });
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.detail.requestConfig) event.detail.requestConfig.rotaStarted = performance.now();
  });
  document.addEventListener("htmx:responseError", (event) => toast(event.detail.xhr.responseText, true));

  // Rows that are as they were stay: only what differs is laid out anew.  Clocks tick by themselves.

  const written = new WeakMap();
  const asWritten = (element) => element.outerHTML.replace(/(<time[^>]*>)[^<]*/g, "$1");

  function patched(target, fragment) {
    const body = one("tbody", target), next = one("tbody", fragment);
    if (!body || !next || one("thead", target).innerHTML !== one("thead", fragment).innerHTML) {
      all("tr[data-row]", fragment).forEach((row) => written.set(row, asWritten(row)));
      target.replaceChildren(...fragment.childNodes);
      return [...target.children];
    }
    const fresh = patchedRows(body, next), table = body.closest(".scroll");
    for (const element of [...target.children]) if (element !== table) element.remove();
    for (const element of [...fragment.children]) {
      if (element.contains(next)) continue;
      fresh.push(element);
      if (element.compareDocumentPosition(next) & Node.DOCUMENT_POSITION_FOLLOWING) table.before(element);
      else target.append(element);
    }
    return fresh;
  }

  function patchedRows(body, next) {
    const old = new Map(all("tr[data-row]", body).map((row) => [row.dataset.row, row])), fresh = [];
    let at = body.firstElementChild;
    for (const row of [...next.children]) {
      const had = old.get(row.dataset.row), text = asWritten(row);
      const isSame = had && written.get(had) === text, stays = isSame ? had : row;
      old.delete(row.dataset.row);
      if (!isSame) {
        written.set(row, text);
        fresh.push(row);
      }
      if (stays === at) at = at.nextElementSibling;
      else body.insertBefore(stays, at);
      if (had && !isSame) {
        if (had === at) at = at.nextElementSibling;
        had.remove();
      }
    }
    old.forEach((row) => row.remove());
    return fresh;
  }

  htmx.defineExtension("rows", {
    isInlineSwap: (style) => style === "rows",
    handleSwap: (style, target, fragment) => style === "rows" && patched(target, fragment),
  });
  all("tr[data-row]").forEach((row) => written.set(row, asWritten(row)));

  function keyOf(element) {
    const row = element.closest("[data-row]");
    return element.id ? `#${element.id}` : row ? row.dataset.row : null;
  }

  // -- questions, acts and words -----------------------------------------------------------------

  // An act is asked for by itself, not by its button: the row of the button may be laid out anew while somebody
  // reads the question, or while the answer is on its way.

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-act]");
    if (!button || button.ariaBusy) return;
    if (button.dataset.ask) ask(button.dataset.ask, () => act(button));
    else act(button);
  });

  function ask(question, then) {
    const dialog = one("#confirm");
    one("#confirm-text").textContent = question;
    dialog.returnValue = "no";
    dialog.addEventListener("close", () => dialog.returnValue === "yes" && then(), { once: true });
    dialog.showModal();
  }

  const LATE_MS = 4000;

  async function act(button) {
    button.ariaBusy = "true";
    const late = setTimeout(() => toast("The controller has not answered yet; what it says will stand here", true), LATE_MS);
    try {
      const asked = { method: button.dataset.act, headers: { "HX-Request": "true" } };
      const answer = await fetch(button.dataset.path, asked), sentence = await answer.text();
      if (answer.status === 401) signIn();
      else toast(sentence, !answer.ok);
    } catch (_) {
      toast("The controller does not answer; the page shows whether it was done when it is back", true);
    }
    clearTimeout(late);
    button.ariaBusy = null;
  }

  function toast(text, isWrong = false) {
    const said = document.createElement("p");
    said.textContent = text;
    said.className = isWrong ? "toast wrong" : "toast";
    one("#toasts").append(said);
    setTimeout(() => said.remove(), isWrong ? 12000 : 5000);
  }

  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-open]");
    if (opener) one(`#${opener.dataset.open}`).showModal();
  });

  // -- keys --------------------------------------------------------------------------------------

  let goes = 0;
  document.addEventListener("keydown", (event) => {
    const target = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey || one("dialog[open]")) return;
    if (target.matches("input, select, textarea, [contenteditable]")) {
      if (event.key === "Escape") target.blur();
      return;
    }
    if (goes && Date.now() - goes < 1500) {
      goes = 0;
      const link = all("nav a[data-key]").find((element) => element.dataset.key === event.key);
      if (link) {
        event.preventDefault();
        link.click();
      }
      return;
    }
    const found = KEYS[event.key];
    if (found && found() !== false) event.preventDefault();
  });

  const KEYS = {
    g: () => { goes = Date.now(); },
    j: () => move(1),
    k: () => move(-1),
    "/": () => {
      const filter = one("[data-filter]");
      if (!filter) return false;
      filter.focus();
      filter.select();
      return true;
    },
    "?": () => one("#help").showModal(),
  };

  function move(by) {
    const rows = all("[data-row]").filter((row) => row.offsetParent !== null);
    if (!rows.length) return;
    const at = rows.findIndex((row) => row.contains(document.activeElement));
    const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by))];
    const target = one("a, button", next) || next;
    target.focus();
    next.scrollIntoView({ block: "nearest" });
  }

  // -- begin -------------------------------------------------------------------------------------

  tick();
  setInterval(tick, 1000);
  setInterval(watch, 1000);
  const here = one("nav a[aria-current]"), bar = here && here.parentElement;
  if (bar) bar.scrollLeft = here.offsetLeft - (bar.clientWidth - here.offsetWidth) / 2;
  connect();
  return { one, all, duration, ahead, toast, tick };
})();
