"use strict";
// Toggling policies, reading values under the pointer, zooming in time.  Everything is in the page
// without this script; it only makes the figures answer.
(() => {
  const UNITS = 1000;
  const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200]
    .concat([1, 2, 5, 7, 14, 28, 56, 112, 224, 448].map((days) => days * 86400));
  const timed = [...document.querySelectorAll(".timed .area")].map((area) => area.closest("figure"));
  let view = [0, 1]; // the part of the time axis shown, as fractions
  document.documentElement.classList.add("scripted");

  // ---- words
  function duration(seconds) {
    if (seconds < 60) return (seconds < 10 ? +seconds.toFixed(1) : Math.round(seconds)) + "s";
    const units = [["d", 86400, "h", 3600], ["h", 3600, "m", 60], ["m", 60, "s", 1]];
    const whole = Math.round(seconds);
    const [unit, size, small, smallSize] = units.find((u) => whole >= u[1]);
    const rest = Math.floor((whole % size) / smallSize);
    return Math.floor(whole / size) + unit + (rest ? " " + rest + small : "");
  }
  const valueWords = (figure, value) => (figure.dataset.ykind === "share"
    ? (100 * value).toFixed(1) + "%" : Math.round(value).toLocaleString("en"));

  // ---- policies on and off
  for (const button of document.querySelectorAll("[data-toggle]")) {
    button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      for (const part of document.querySelectorAll(`[data-policy="${button.dataset.toggle}"]`)) {
        part.classList.toggle("off", !shown);
      }
    });
  }

  // ---- axes
  function xValue(figure, fraction) {
    const low = +figure.dataset.xlow, high = +figure.dataset.xhigh;
    if (figure.dataset.xlog === "1") return low * Math.pow(high / low, fraction);
    return low + (high - low) * fraction;
  }
  const shownPart = (figure) => (figure.classList.contains("timed") ? view : [0, 1]);
  const fractionAt = (figure, area, event) => {
    const box = area.getBoundingClientRect();
    const across = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
    const [from, to] = shownPart(figure);
    return from + across * (to - from);
  };

  function redrawTimes() {
    for (const figure of timed) {
      const plot = figure.querySelector(".plot");
      const rows = plot.viewBox.baseVal.height;
      plot.setAttribute("viewBox", `${view[0] * UNITS} 0 ${(view[1] - view[0]) * UNITS} ${rows}`);
      const high = +figure.dataset.xhigh, length = (view[1] - view[0]) * high;
      const step = STEPS_S.find((s) => length / s <= 7) || STEPS_S[STEPS_S.length - 1];
      const labels = figure.querySelector(".xticks"), grid = figure.querySelector(".xgrid");
      labels.textContent = "";
      let lines = "";
      for (let at = Math.ceil((view[0] * high) / step) * step; at <= view[1] * high * 1.0001; at += step) {
        const label = document.createElement("span");
        label.textContent = at === 0 ? "0" : duration(at);
        label.style.left = (100 * (at / high - view[0])) / (view[1] - view[0]) + "%";
        labels.append(label);
        lines += `M${(at / high) * UNITS} 0V${UNITS}`;
      }
      if (grid) grid.innerHTML = `<path d="${lines}"/>`;
    }
  }

  // ---- reading values
  function points(path) { // corner points of a curve, parsed once
    if (!path.points) {
      path.points = path.getAttribute("d").slice(1).split("L").map((pair) => pair.split(" ").map(Number));
    }
    return path.points;
  }
  function heightAt(path, x) { // the last corner at or before x, as a fraction from the bottom
    const corners = points(path);
    let low = 0, high = corners.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (corners[middle][0] <= x) low = middle; else high = middle - 1;
    }
    return 1 - corners[low][1] / UNITS;
  }
  function showTip(figure, area, event) {
    hideTip();
    const fraction = fractionAt(figure, area, event), [from, to] = shownPart(figure);
    const across = (fraction - from) / (to - from);
    const cursor = area.appendChild(document.createElement("div"));
    cursor.className = "cursor";
    cursor.style.left = 100 * across + "%";
    const tip = area.appendChild(document.createElement("div"));
    tip.className = "tip";
    tip.appendChild(document.createElement("b")).textContent = duration(xValue(figure, fraction));
    for (const path of figure.querySelectorAll(".plot .curve:not(.off)")) {
      const row = tip.appendChild(document.createElement("div"));
      const swatch = document.querySelector(`[data-toggle="${path.dataset.policy}"] .swatch`);
      row.append(swatch.cloneNode(true), path.dataset.name);
      const value = heightAt(path, fraction * UNITS) * +figure.dataset.yhigh;
      row.appendChild(document.createElement("span")).textContent = valueWords(figure, value);
    }
    if (across < 0.5) tip.style.left = `calc(${100 * across}% + 12px)`;
    else tip.style.right = `calc(${100 * (1 - across)}% + 12px)`;
  }
  function hideTip() {
    for (const part of document.querySelectorAll(".cursor, .tip")) part.remove();
  }

  // ---- pointer
  for (const area of document.querySelectorAll(".area")) {
    const figure = area.closest("figure"), plot = area.querySelector(".plot");
    const zooms = figure.classList.contains("timed");
    let anchor = null, mark = null;
    plot.addEventListener("pointerdown", (event) => {
      if (!zooms || event.pointerType === "touch") return;
      anchor = fractionAt(figure, area, event);
      mark = area.appendChild(document.createElement("div"));
      mark.className = "dragged";
      plot.setPointerCapture(event.pointerId);
    });
    plot.addEventListener("pointermove", (event) => {
      if (anchor === null) { showTip(figure, area, event); return; }
      hideTip();
      const [a, b] = [anchor, fractionAt(figure, area, event)].sort((p, q) => p - q);
      mark.style.left = (100 * (a - view[0])) / (view[1] - view[0]) + "%";
      mark.style.width = (100 * (b - a)) / (view[1] - view[0]) + "%";
    });
    const release = (event) => {
      if (anchor === null) return;
      const [a, b] = [anchor, fractionAt(figure, area, event)].sort((p, q) => p - q);
      anchor = null;
      mark.remove();
      if (event.type === "pointerup" && b - a > 0.012 * (view[1] - view[0])) { view = [a, b]; redrawTimes(); }
    };
    plot.addEventListener("pointerup", release);
    plot.addEventListener("pointercancel", release);
    plot.addEventListener("pointerleave", hideTip);
    plot.addEventListener("dblclick", () => { if (zooms) { view = [0, 1]; redrawTimes(); } });
  }
})();
