// Curves over time: every figure with data-series fetches { times, series: [{name, values, dashed}], unit } and draws it.
"use strict";

(() => {
  const { all } = rota;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const tone = (one, at) => colour(one.colour || `--c${at % 8}`);
  const unlike = (words) => words.map((word, at) => (at && word === words[at - 1] ? "" : word));
  const tick = (value) => (value === null ? "" : value >= 1000 ? value.toLocaleString("en") : String(+value.toPrecision(3)));

  // From the power of ten below the least to the one above the most, so that one slow decision hides no other.
  function decades(_, low, high) {
    const down = Math.floor(Math.log10(Math.max(low || 1, 1e-2))), up = Math.ceil(Math.log10(Math.max(high || 1, 1e-2)));
    return [10 ** down, 10 ** Math.max(up, down + 1)];
  }

  function powers(plot, axis, low, high) {
    const found = [];
    for (let power = Math.round(Math.log10(low)); power <= Math.round(Math.log10(high)); power += 1) found.push(10 ** power);
    return found;
  }

  async function draw(figure) {
    const answer = await fetch(figure.dataset.series, { headers: { accept: "application/json" } });
    if (!answer.ok) return say(figure, "The curves cannot be had now; look again in a moment.");
    const { times, series, unit, log } = await answer.json();
    if (!times.length || !series.length) return say(figure, "Nothing to draw yet.");
    const soft = colour("--soft"), line = colour("--line");
    const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "12px system-ui" };
    const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
    const hour = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
    const second = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
    const span = times[times.length - 1] - times[0];
    const clock = span > 3 * 86400 ? day : span > 900 ? hour : second;
    const whole = (seconds) => `${day.format(seconds * 1000)} ${second.format(seconds * 1000)}`;
    const number = (value) => (value === null || value === undefined ? "" : +value.toPrecision(3));
    const options = {
      width: figure.clientWidth,
      height: 250,
      cursor: { points: { size: 6 } },
      scales: { y: log ? { distr: 3, range: decades } : { range: (_, low, high) => [0, Math.max(high * 1.08, 1e-3)] } },
      axes: [{ ...axis, space: 80, values: (_, splits) => unlike(splits.map((at) => clock.format(at * 1000))) }, { ...axis, label: unit, labelSize: 18, size: 54, ...(log ? { splits: powers } : {}), values: (_, splits) => splits.map(tick) }],
      series: [
        { label: "", value: (_, at) => (at === null ? "" : whole(at)) },
        ...series.map((one, at) => ({
          label: one.name,
          stroke: one.dashed ? soft : tone(one, at),
          width: one.dashed ? 1.5 : 2,
          dash: one.dashed ? [6, 4] : undefined,
          fill: series.length <= 2 && !one.dashed && !one.dots ? tone(one, at) + "33" : undefined,
          points: one.dots ? { show: true, size: 5, width: 0, fill: tone(one, at) } : { size: 4 },
          paths: one.dots ? () => null : undefined,
          value: (_, value) => number(value),
        })),
      ],
    };
    figure.replaceChildren();
    const plot = new uPlot(options, [times, ...series.map((one) => one.values)], figure);
    figure.plot = plot;
    return plot;
  }

  function say(figure, text) {
    const said = document.createElement("p");
    said.className = "empty";
    said.textContent = text;
    figure.replaceChildren(said);
  }

  function drawAll() {
    all("[data-series]").forEach(draw);
  }

  let later = null;
  window.addEventListener("resize", () => {
    for (const figure of all("[data-series]")) {
      if (figure.plot) figure.plot.setSize({ width: figure.clientWidth, height: 250 });
    }
  });
  for (const topic of ["live-jobs", "live-decision", "live-all"]) {
    document.body.addEventListener(topic, () => {
      if (later === null) later = setTimeout(() => { later = null; drawAll(); }, 15000);
    });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  drawAll();
})();
