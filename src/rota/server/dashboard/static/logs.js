// The log of a rank: asked for again and again from where the last piece ended, kept within bounds, shown as text.
"use strict";

(() => {
  const section = rota.one("#logs");
  if (!section) return;
  const pre = rota.one("pre", section), said = rota.one("[data-said]", section);
  const rankBox = rota.one("[data-rank]", section), attemptBox = rota.one("[data-attempt]", section);
  const follow = rota.one("[data-follow]", section), wrap = rota.one("[data-wrap]", section), download = rota.one("[data-download]", section);
  const PIECE = 1 << 17, FIRST = 1 << 16, FAR = 1 << 20;
  const MOST_LINES = 4000, MOST_LINE = 4000, MOST_TEXT = 1 << 19;
  const QUICK_MS = 700, SLOW_MS = 4000;
  const bytes = new TextEncoder();
  let lines = [], open = "", kept = 0, place = -FIRST, isAtEnd = true, isFollowing = true, pause = QUICK_MS, run = 0, dropped = false;

  // What a terminal would obey is taken out: colours, cursors, titles, letters that turn the line round.
  const ESCAPES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])/g;
  const CONTROLS = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

  function plain(line) {
    const text = line.replace(ESCAPES, "").replace(CONTROLS, "");
    const turns = text.split("\r");
    let last = turns.pop();
    while (!last && turns.length) last = turns.pop();
    return last.length > MOST_LINE ? `${last.slice(0, MOST_LINE)} … (${last.length - MOST_LINE} letters more)` : last;
  }

  function take(text) {
    const parts = (open + text).split("\n");
    open = parts.pop();
    if (open.length > 4 * MOST_LINE) open = open.slice(-2 * MOST_LINE);
    for (const part of parts.length > MOST_LINES ? parts.slice(-MOST_LINES) : parts) add(plain(part));
  }

  function add(line) {
    lines.push(line);
    kept += line.length + 1;
    while (lines.length > MOST_LINES || kept > MOST_TEXT) {
      kept -= lines.shift().length + 1;
      dropped = true;
    }
  }

  function mark(text) {
    if (open) add(plain(open));
    open = "";
    add(`── ${text} ──`);
  }

  function show() {
    const last = plain(open);
    pre.textContent = lines.join("\n") + (lines.length && last ? "\n" : "") + last;
    if (isFollowing) pre.scrollTop = pre.scrollHeight;
    said.textContent = dropped ? "Only the end is shown; Download has all of it." : "";
  }

  function begin() {
    run += 1;
    lines = [];
    open = "";
    kept = 0;
    place = -FIRST;
    dropped = false;
    pause = QUICK_MS;
    pre.textContent = "";
    said.textContent = "";
    address();
    ask(run);
  }

  function query() {
    const asked = new URLSearchParams({ rank: rankBox.value || "0" });
    if (attemptBox.value) asked.set("attempt", attemptBox.value);
    return asked;
  }

  function address() {
    download.href = `${section.dataset.file}?${query()}`;
  }

  async function ask(mine) {
    if (mine !== run) return;
    if (document.hidden || !isFollowing) return;
    let next = pause;
    try {
      const asked = query();
      asked.set("offset", place);
      asked.set("limit", PIECE);
      const answer = await fetch(`${section.dataset.logs}?${asked}`, { headers: { accept: "application/json" } });
      const told = await answer.json();
      if (mine !== run) return;
      next = answer.ok ? read(told) : refused(told);
    } catch (_) { next = SLOW_MS; }
    if (mine === run && next !== null) setTimeout(() => ask(mine), next);
  }

  function read(piece) {
    if (piece.error) {
      said.textContent = piece.error;
      return isOver() ? null : SLOW_MS;
    }
    const size = bytes.encode(piece.text).length;
    const isCut = place < 0 && piece.offset > 0;
    if (isCut) dropped = true;
    take(isCut ? piece.text.slice(piece.text.indexOf("\n") + 1) : piece.text);
    place = piece.offset + size;
    const left = piece.size - place;
    if (left > FAR) {
      mark(`${Math.round((left - FIRST) / 1024).toLocaleString("en")} KiB skipped`);
      place = piece.size - FIRST;
      dropped = true;
    }
    if (size) show();
    else if (!lines.length && !open) said.textContent = "It has written nothing so far.";
    pause = size ? QUICK_MS : Math.min(SLOW_MS, 1.4 * pause);
    if (left > 0) return 50;
    return isOver() && !size ? null : pause;
  }

  function refused(problem) {
    said.textContent = problem.error || "The log cannot be read.";
    return isOver() ? null : SLOW_MS;
  }

  // -- which log ---------------------------------------------------------------------------------

  function facts() {
    return rota.one("#job-facts").dataset;
  }

  function isOver() {
    return facts().over === "1";
  }

  let attempts = -1;
  function choices() {
    const { ranks, attempts: now } = facts();
    fill(rankBox, Number(ranks), (i) => [String(i), String(i)]);
    fill(attemptBox, Number(now) + 1, (i) => (i ? [String(i), String(i)] : ["", "newest"]));
    const isAnother = attempts >= 0 && Number(now) !== attempts;
    attempts = Number(now);
    if (!isAnother || attemptBox.value) return;
    if (lines.length || open) mark(`attempt ${attempts}`);
    place = 0;
    run += 1;
    ask(run);
  }

  function fill(box, count, made) {
    while (box.length > count) box.remove(box.length - 1);
    for (let i = box.length; i < count; i += 1) {
      const [value, text] = made(i);
      box.add(new Option(text, value));
    }
  }

  function following(now) {
    isFollowing = now;
    follow.textContent = now ? "Pause" : "Follow";
    follow.setAttribute("aria-pressed", String(now));
    run += 1; // a piece that is under way is not shown, but asked for again
    if (!now) return;
    pre.scrollTop = pre.scrollHeight;
    pause = QUICK_MS;
    ask(run);
  }

  rankBox.addEventListener("change", begin);
  attemptBox.addEventListener("change", begin);
  follow.addEventListener("click", () => following(!isFollowing));
  wrap.addEventListener("change", () => pre.classList.toggle("wrap", wrap.checked));
  pre.classList.toggle("wrap", wrap.checked);
  pre.addEventListener("scroll", () => {
    const wasAtEnd = isAtEnd;
    isAtEnd = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 30;
    if (wasAtEnd && !isAtEnd && isFollowing && pre.matches(":hover, :focus")) following(false);
    else if (!wasAtEnd && isAtEnd && !isFollowing) following(true);
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && isFollowing) following(true);
  });
  document.body.addEventListener("htmx:afterSettle", choices);
  document.body.addEventListener("live-all", () => isFollowing && following(true));
  choices();
  begin();
})();
