// The curves of a job: fetched as JSON, drawn by uPlot, fetched again when the job has something new to say.
"use strict";

(() => {
  const section = rota.one("#curves");
  if (!section) return;
  const plots = rota.one(".plots", section);
  const WORDS = {
    loss: "Loss", step_s: "Step time", batch_size: "Batch size", throughput: "Throughput",
    gradient_noise: "Gradient noise", gpus: "Devices", utilisation: "Utilisation",
    gpu_memory_gib: "Device memory", memory_gib: "Host memory",
  };
  const UNITS = { s: "s", samples: "samples", "samples/s": "samples/s", GiB: "GiB", MiB: "MiB" };
  const HEIGHT = 170, LEAST_MS = 2000, SILENCE = 4, LEAST_SILENCE_S = 10;
  const sync = uPlot.sync("job");
  const drawn = new Map();
  let asked = 0, timer = null, shown = null;

  function text(value, unit) {
    if (value === null || value === undefined) return "–";
    if (unit === "part") return `${(100 * value).toFixed(value < 0.1 ? 1 : 0)} %`;
    return `${short(value)}${UNITS[unit] ? ` ${UNITS[unit]}` : ""}`;
  }

  function short(value) {
    const size = Math.abs(value);
    if (size !== 0 && (size >= 1e7 || size < 1e-4)) return value.toExponential(2);
    if (size >= 1000) return Math.round(value).toLocaleString("en");
    return String(Number(value.toPrecision(size >= 100 ? 4 : 3)));
  }

  // Columns for uPlot: a point without values stands in each long silence and wherever the job held nothing, so
  // that no line crosses it.  Long is against how often this one is said: programs speak every second, agents twice a minute.
  function columns(answer, name, factor) {
    const { mean, low, high } = answer.curves[name];
    const data = [[], [], [], []], size = answer.at_s.length;
    const said = answer.at_s.map((_, i) => i).filter((i) => mean[i] !== null);
    const silent = said.slice(1).map((i, before) => answer.at_s[i] - answer.until_s[said[before]]);
    const usual = [...silent].sort((a, b) => a - b)[silent.length >> 1] || 0;
    const long = Math.max(SILENCE * Math.max(answer.spacing_s, usual), LEAST_SILENCE_S);
    if (size) push(data, answer.at_s[0] - 0.5, null, null, null);  // all curves share their time
    const stood = (from_s, until_s) => (answer.gaps || []).find((gap) => gap[0] < until_s && from_s < gap[1]);
    said.forEach((i, at) => {
      const from_s = answer.at_s[i], until_s = answer.until_s[i];
      const values = [mean, low, high].map((list) => list[i] * factor);
      if (at && (silent[at - 1] > long || stood(from_s - silent[at - 1], from_s))) {
        push(data, from_s - silent[at - 1] / 2, null, null, null);
      }
      const inside = stood(from_s, until_s);  // of points that became one across a standstill
      if (!inside) return push(data, (from_s + until_s) / 2, ...values);
      push(data, from_s, ...values);
      push(data, (Math.max(inside[0], from_s) + Math.min(inside[1], until_s)) / 2, null, null, null);
      push(data, until_s, ...values);
    });
    if (size) push(data, answer.until_s[size - 1] + 0.5, null, null, null);
    return data;
  }

  function push(data, ...values) {
    values.forEach((value, i) => data[i].push(value));
  }

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function options(name, unit, place, width, isLog) {
    const line = colour(`--c${place % 8}`), soft = colour("--soft"), grid = { stroke: colour("--line"), width: 1 };
    const axis = { stroke: soft, grid, ticks: { ...grid, size: 4 }, font: "11px system-ui, sans-serif" };
    const band = { stroke: "transparent", width: 0, points: { show: false } };
    return {
      width, height: HEIGHT, legend: { show: false }, padding: [8, 26, 0, 0],
      cursor: { sync: { key: sync.key }, y: false, drag: { x: true, y: false } },
      scales: { x: { time: true }, y: isLog ? { distr: 3 } : { range: (_, low, high) => around(low, high, unit) } },
      axes: [{ ...axis, size: 26, space: 64, values: (_, ticks, __, ___, step) => ticks.map((one) => clock(one, step)) }, { ...axis, size: 54, values: (_, ticks) => ticks.map((one) => (one === null ? "" : unit === "part" ? `${Math.round(100 * one)} %` : short(one))) }],
      series: [{}, { stroke: line, width: 1.6, points: { size: 4, fill: line } }, band, band],
      bands: [{ series: [3, 2], fill: `${line}33` }],
      hooks: { setCursor: [(plot) => tell(name, plot.cursor.idx)] },
    };
  }

  function clock(unix, step) {
    const at = new Date(1000 * unix), two = (number) => String(number).padStart(2, "0");
    if (step >= 86400) return at.toLocaleDateString("en", { month: "short", day: "numeric" });
    const minutes = `${two(at.getHours())}:${two(at.getMinutes())}`;
    return step < 60 ? `${minutes}:${two(at.getSeconds())}` : minutes;
  }

  function around(low, high, unit) {
    if (low === null || high === null) return [0, 1];
    if (unit === "part") return [0, Math.max(1, high)];
    const isFlat = high - low <= 0.02 * Math.abs(high);
    const room = isFlat ? Math.abs(high) * 0.1 || 1 : 0.06 * (high - low);
    const floor = low >= 0 && (low < 0.4 * high || isFlat || unit === "GiB" || unit === "MiB") ? 0 : low - room;
    return [floor, high + room];
  }

  function tell(name, place) {
    const one = drawn.get(name);
    if (!one) return;
    const [, mean, low, high] = one.data;
    let i = place;
    if (i === null || i === undefined) for (i = mean.length - 1; i > 0 && mean[i] === null;) i -= 1;
    const range = low[i] !== null && low[i] !== high[i] ? ` (${short(low[i])} to ${short(high[i])})` : "";
    one.said.textContent = `${text(mean[i], one.unit)}${one.unit === "part" ? "" : range}`;
  }

  function make(name, unit, place) {
    const figure = document.createElement("figure"), caption = document.createElement("figcaption");
    const title = document.createElement("b"), said = document.createElement("output"), box = document.createElement("div");
    figure.className = "plot";
    figure.dataset.curve = name;
    title.textContent = WORDS[name] || name;
    caption.append(title);
    const one = { name, unit, place, figure, box, said, isLog: false, data: null, plot: null };
    if (name === "loss" || name === "gradient_noise") {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = "log";
      button.setAttribute("aria-pressed", "false");
      button.setAttribute("aria-label", `${title.textContent} on a log scale`);
      button.addEventListener("click", () => {
        one.isLog = !one.isLog;
        button.setAttribute("aria-pressed", String(one.isLog));
        again(one);
      });
      caption.append(button);
      one.button = button;
    }
    caption.append(said);
    figure.append(caption, box);
    plots.append(figure);
    drawn.set(name, one);
    return one;
  }

  function again(one) {
    if (one.plot) one.plot.destroy();
    one.plot = new uPlot(options(one.name, one.unit, one.place, one.box.clientWidth || 400, one.isLog), one.data, one.box);
    tell(one.name, null);
  }

  function counted(mean) {
    const points = mean.filter((value) => value !== null).length, silences = Math.max(mean.length - points - 2, 0);
    const many = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
    return many(points, "point") + (silences ? `, ${many(silences, "silence")} between them` : "");
  }

  function draw(answer) {
    shown = answer;
    const names = Object.keys(answer.curves);
    rota.one("[data-empty]", section).hidden = names.length > 0;
    Object.keys(WORDS).forEach((name, place) => {
      if (!names.includes(name)) return;
      const curve = answer.curves[name], isSmall = curve.unit === "GiB" && Math.max(...curve.high) < 1;
      const one = drawn.get(name) || make(name, curve.unit, place);
      one.unit = isSmall ? "MiB" : curve.unit;
      one.data = columns(answer, name, isSmall ? 1024 : 1);
      const isPositive = one.data[2].every((value) => value === null || value > 0);
      if (one.button) one.button.disabled = !isPositive;
      if (one.isLog && !isPositive) one.isLog = false;
      one.figure.setAttribute("aria-label", `${WORDS[name]}: ${counted(one.data[1])}`);
      if (one.plot) {
        one.plot.setData(one.data);
        if (one.plot.cursor.idx === null || one.plot.cursor.left < 0) tell(name, null);
      } else again(one);
    });
  }

  // Only what is new is asked for.  The last point is: it may stand for what is not on record yet.
  function known() {
    return shown && shown.at_s.length > 1 ? cut(shown, shown.at_s.length - 1) : null;
  }

  function cut(answer, size) {
    const part = { ...answer, curves: {} };
    for (const list of ["at_s", "until_s", "attempt"]) part[list] = answer[list].slice(0, size);
    for (const [name, curve] of Object.entries(answer.curves)) {
      part.curves[name] = { unit: curve.unit, ...mapped((list) => curve[list].slice(0, size)) };
    }
    return part;
  }

  function joined(before, after) {
    const both = { ...before, gaps: after.gaps, curves: {} };
    for (const list of ["at_s", "until_s", "attempt"]) both[list] = before[list].concat(after[list]);
    for (const name of new Set([...Object.keys(before.curves), ...Object.keys(after.curves)])) {
      const [one, two] = [before.curves[name], after.curves[name]];
      const lists = mapped((list) => filled(one, list, before.at_s.length).concat(filled(two, list, after.at_s.length)));
      both.curves[name] = { unit: (one || two).unit, ...lists };
    }
    return both;
  }

  function mapped(made) {
    return { mean: made("mean"), low: made("low"), high: made("high") };
  }

  function filled(curve, list, size) {
    return curve ? curve[list] : Array(size).fill(null);
  }

  async function fetched() {
    timer = null;
    asked = Date.now();
    const before = known();
    const since = before ? `?since=${before.until_s.at(-1) + 0.001}` : "";
    try {
      const told = await fetch(section.dataset.curves + since, { headers: { accept: "application/json" } });
      if (!told.ok) return;
      const answer = await told.json();
      if (!before) draw(answer);
      else if (answer.at_s.length && answer.spacing_s !== shown.spacing_s) {
        shown = null;  // points have become fewer
        soon();
      } else if (answer.at_s.length) draw(joined(before, answer));
    } catch (_) { /* the banner says that nobody answers */ }
  }

  function soon() {
    if (timer === null && !document.hidden) timer = setTimeout(fetched, Math.max(0, asked + LEAST_MS - Date.now()));
  }

  new ResizeObserver(() => {
    for (const one of drawn.values()) {
      const width = one.box.clientWidth;
      if (one.plot && width && width !== one.plot.width) one.plot.setSize({ width, height: HEIGHT });
    }
  }).observe(plots);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => [...drawn.values()].forEach(again));
  document.body.addEventListener(section.dataset.on, soon);
  document.body.addEventListener("live-all", soon);
  document.addEventListener("visibilitychange", soon);
  fetched();
})();
