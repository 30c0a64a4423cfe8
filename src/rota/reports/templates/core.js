// What all parts of the page share: words, the part of time that is shown, who is shown.
// Everything is in the page without scripts; they only make it answer.
const rota = (() => {
  const UNITS = 1000;
  const STEPS_S = [[1, [1, 2, 3, 4, 5, 10, 15, 20, 30]], [60, [1, 2, 3, 4, 5, 10, 15, 20, 30]],
    [3600, [1, 2, 3, 4, 6, 8, 12]], [86400, [1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 56, 112, 224, 448]]]
    .flatMap(([unit, counts]) => counts.map((count) => count * unit)); // as ticks.py has them
  const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
  const MONDAY_S = 4 * 86400; // the first Monday after 1 January 1970
  const facts = document.querySelector("main").dataset;
  const length = +facts.length || 1, shown = +facts.shown || 1;
  const epoch = facts.epoch === "" ? null : +facts.epoch;
  const listeners = [];
  let view = [0, shown]; // the part of the time axis shown, as fractions
  document.documentElement.classList.add("scripted");

  // ---- words
  function duration(seconds) {
    if (seconds < 0) return "−" + duration(-seconds);
    if (seconds < 60) return (seconds < 10 ? +seconds.toFixed(1) : Math.round(seconds)) + "s";
    const units = [["d", 86400, "h", 3600], ["h", 3600, "m", 60], ["m", 60, "s", 1]];
    const whole = Math.round(seconds);
    const [unit, size, small, smallSize] = units.find((u) => whole >= u[1]);
    const rest = Math.floor((whole % size) / smallSize);
    return Math.floor(whole / size) + unit + (rest ? " " + rest + small : "");
  }
  const two = (number) => String(number).padStart(2, "0");
  const date = (seconds) => new Date((epoch + seconds) * 1000);
  function since(seconds, exact) { // since the beginning of the trace, as finely as what is shown asks for
    const span = (view[1] - view[0]) * length, least = exact || span < 600 ? 1 : span < 86400 ? 60 : 3600;
    if (seconds < 3600 || least === 3600) return duration(seconds);
    const parts = [];
    let left = Math.round(seconds / least) * least;
    for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]]) {
      const count = Math.floor(left / size);
      left -= count * size;
      if (count) parts.push(count + unit);
    }
    return parts.join(" ");
  }
  function moment(seconds, exact) { // a date where the trace has them, else the time since its beginning
    if (epoch === null) return since(seconds, exact);
    const at = date(seconds), fine = exact || (view[1] - view[0]) * length < 600;
    const clock = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}` + (fine ? `:${two(at.getUTCSeconds())}` : "");
    return `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]} ${clock}`;
  }
  function mark(seconds) { // as `moment`, short enough for an axis
    if (epoch === null) return seconds === 0 ? "0" : since(seconds);
    const at = date(seconds);
    if (at.getUTCSeconds()) return `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())}`;
    const midnight = at.getUTCHours() === 0 && at.getUTCMinutes() === 0;
    return midnight ? `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}` : `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}`;
  }
  function marks(most) { // seconds at which the part of time shown gets a mark
    const from = view[0] * length, to = view[1] * length;
    const anchor = epoch === null ? 0 : MONDAY_S - epoch;
    const left = (s) => Math.round(to - anchor) % s; // between the last mark and the end, none where it is one
    const fit = STEPS_S.filter((s) => (to - from) / s <= most && (to - from) / s >= most / 2);
    const step = from === 0 && fit.length ? fit.reduce((best, s) => (left(s) <= left(best) ? s : best))
      : STEPS_S.find((s) => (to - from) / s <= most) || STEPS_S[STEPS_S.length - 1];
    const places = [];
    for (let at = anchor + Math.ceil((from - anchor) / step) * step; at <= to + 1e-6 * step; at += step) places.push(at);
    return places;
  }

  // ---- the part of time that is shown
  function zoom(from, to) {
    const least = Math.min(Math.max(1 / length, 1e-6), 1);
    let size = Math.min(Math.max(to - from, least), 1);
    const start = Math.min(Math.max((from + to - size) / 2, 0), 1 - size);
    view = [start, start + size];
    for (const listen of listeners) listen();
  }
  function around(fraction, factor) { // `fraction` of the whole stays where it is
    const [from, to] = view;
    zoom(fraction - (fraction - from) * factor, fraction + (to - fraction) * factor);
  }
  const pan = (part) => zoom(view[0] + part * (view[1] - view[0]), view[1] + part * (view[1] - view[0]));
  const reset = () => zoom(0, shown);
  const middle = () => (view[0] + view[1]) / 2;
  const zooms = { in: () => around(middle(), 0.5), out: () => around(middle(), 2), reset, all: () => zoom(0, 1) };
  const bar = document.querySelector(".zoom"), range = document.querySelector(".range");
  bar.hidden = false;
  for (const button of bar.querySelectorAll("[data-zoom]")) button.addEventListener("click", () => zooms[button.dataset.zoom]());
  if (shown > 0.999) bar.querySelector('[data-zoom="reset"]').hidden = true;
  function tellRange() {
    range.textContent = `${moment(view[0] * length)} – ${moment(view[1] * length)}`;
    const at = (from, to) => Math.abs(view[0] - from) + Math.abs(view[1] - to) < 1e-6;
    bar.querySelector('[data-zoom="reset"]').setAttribute("aria-pressed", String(at(0, shown)));
    bar.querySelector('[data-zoom="all"]').setAttribute("aria-pressed", String(at(0, 1)));
  }
  listeners.push(tellRange);
  tellRange();

  // ---- policies on and off
  for (const button of document.querySelectorAll("[data-toggle]")) {
    button.title = "Hide or show this policy";
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(on));
      for (const part of document.querySelectorAll(`[data-policy="${button.dataset.toggle}"]`)) {
        part.classList.toggle("off", !on);
      }
      for (const listen of listeners) listen();
    });
  }

  // ---- building the page
  function element(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (key in made && key !== "style") made[key] = value; else made.setAttribute(key, value);
    }
    made.append(...children.filter((child) => child !== null && child !== undefined));
    return made;
  }
  const swatch = (number) => document.querySelector(`[data-toggle="${number}"] .swatch`).cloneNode(true);

  const JOINT = /(?<=[:=,/_|])(?=[^:=,/_|])/; // as html.py has it
  function name(text) { // broken between its parts where it has to be
    const parts = text.split(JOINT).flatMap((part, i) => (i ? [element("wbr"), part] : [part]));
    return element("span", { className: "name" }, ...parts);
  }
  const loose = (text) => text.split(JOINT).join("\u200b"); // the same where no element can stand

  // ---- what is packed
  async function unpack() {
    const text = document.getElementById("drawn").textContent.trim();
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const data = await new Response(stream).json();
    const sums = (steps) => { let at = 0; return steps.map((step) => (at += step)); };
    data.jobs.submit = sums(data.jobs.submit);
    for (const run of data.runs) if (run) run.start = sums(run.start);
    return data;
  }
  let unpacked = null;
  const drawn = () => (unpacked = unpacked || unpack());

  return { UNITS, length, get view() { return view; }, listeners, duration, moment, mark, marks, zoom, around, pan,
    reset, element, swatch, name, loose, drawn };
})();
