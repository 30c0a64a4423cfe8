// Figures: axes that follow the part of time shown, values under the pointer or the arrow keys, zoom by
// dragging, by two fingers, by the wheel with Ctrl, and by keys.
(() => {
  const { UNITS, element } = rota;
  const figures = [...document.querySelectorAll("figure.chart")].filter((figure) => figure.querySelector(".area"));
  const timed = figures.filter((figure) => figure.classList.contains("timed"));

  // ---- axes
  const shownPart = (figure) => (figure.classList.contains("timed") ? rota.view : [0, 1]);
  function xWords(figure, fraction) {
    const low = +figure.dataset.xlow, high = +figure.dataset.xhigh;
    if (figure.classList.contains("timed")) return rota.moment(fraction * high);
    const value = figure.dataset.xlog === "1" ? low * Math.pow(high / low, fraction) : low + (high - low) * fraction;
    if (figure.dataset.xkind === "hour") return `${Math.min(Math.floor(value), 23)}:00 to ${Math.min(Math.floor(value), 23) + 1}:00`;
    return rota.duration(value);
  }
  function valueWords(figure, value) {
    if (figure.dataset.ykind === "share") return (100 * value).toFixed(1) + "%";
    return figure.dataset.ykind === "time" ? rota.duration(value) : Math.round(value).toLocaleString("en");
  }
  function redraw() {
    const [from, to] = rota.view;
    for (const figure of timed) {
      const plot = figure.querySelector(".plot"), rows = plot.viewBox.baseVal.height;
      plot.setAttribute("viewBox", `${from * UNITS} 0 ${(to - from) * UNITS} ${rows}`);
      const labels = figure.querySelector(".xticks"), grid = figure.querySelector(".xgrid");
      const most = Math.min(Math.max(Math.floor(labels.clientWidth / 90), 2), 9);
      const places = rota.marks(most).map((at) => [at, at / rota.length]);
      labels.replaceChildren(...places.map(([at, place]) => element("span", {
        textContent: rota.mark(at), style: `left:min(${(100 * (place - from)) / (to - from)}%, 100% - var(--end))`,
      })));
      if (grid) grid.innerHTML = `<path d="${places.map(([, place]) => `M${place * UNITS} 0V${UNITS}`).join("")}"/>`;
    }
  }
  rota.listeners.push(redraw);

  // ---- reading values
  function points(path) { // corner points of a curve, parsed once
    path.points = path.points || path.getAttribute("d").slice(1).split("L").map((pair) => pair.split(" ").map(Number));
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
  function curveRows(figure, fraction) {
    return [...figure.querySelectorAll(".plot .curve:not(.off)")].map((path) => element("div", {},
      rota.swatch(path.dataset.policy), path.dataset.name,
      element("span", { textContent: valueWords(figure, heightAt(path, fraction * UNITS) * +figure.dataset.yhigh) })));
  }
  function laneRows(figure, fraction, down) { // the job under the pointer, and what it holds
    const lanes = [...figure.querySelectorAll(".plot .lane")], number = Math.min(Math.floor(down * lanes.length), lanes.length - 1);
    const rows = figure.querySelector(".plot").viewBox.baseVal.height / lanes.length, corners = points(lanes[number]);
    const last = corners.findLast(([x]) => x <= fraction * UNITS) || corners[0];
    const held = ((number + 1) * rows - last[1]) / (rows * 0.86) * +figure.dataset.most;
    return [element("div", { textContent: `job ${lanes[number].dataset.name}` }, element("span", { textContent: held < 0.01 ? "none" : `${+held.toFixed(1)} GPUs` }))];
  }
  for (const figure of figures.filter((one) => one.classList.contains("lanes"))) {
    figure.querySelector(".area").told = (fraction, down) => laneRows(figure, fraction, down);
  }
  // A figure may say itself what is under the pointer: `area.told(fraction, part of the height)` gives a list.
  function showTip(figure, area, across, down) {
    hideTip();
    const [from, to] = shownPart(figure), fraction = from + across * (to - from);
    const tip = element("div", { className: "tip" }, element("b", { textContent: xWords(figure, fraction) }));
    tip.append(...(area.told ? area.told(fraction, down) : curveRows(figure, fraction)));
    area.append(element("div", { className: "cursor", style: `left:${100 * across}%` }), tip);
    const width = area.clientWidth, left = across * width, wide = tip.offsetWidth;
    const place = left + 12 + wide <= width ? left + 12 : left - 12 - wide;
    tip.style.left = Math.max(Math.min(place, width - wide), -44) + "px";
    return tip;
  }
  function hideTip() {
    for (const part of document.querySelectorAll(".cursor, .tip")) part.remove();
  }

  // ---- keys
  const said = document.body.appendChild(element("p", { className: "unseen", role: "status" }));
  function listenToKeys(figure, area) {
    const zooms = figure.classList.contains("timed");
    let across = 0.5, down = 0.5;
    area.tabIndex = 0;
    area.addEventListener("keydown", (event) => {
      const [from, to] = shownPart(figure), at = from + across * (to - from);
      const step = { ArrowLeft: -0.01, ArrowRight: 0.01 }[event.key];
      const climb = area.told && { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (step && event.shiftKey && zooms) rota.pan(20 * step);
      else if (step) across = Math.min(Math.max(across + step, 0), 1);
      else if (climb) down = Math.min(Math.max(down + climb * (area.climb ? area.climb() : 0.04), 0), 0.999);
      else if (event.key === "Enter" && area.pressed) area.pressed(at, down);
      else if (zooms && (event.key === "+" || event.key === "=")) rota.around(at, 0.5);
      else if (zooms && (event.key === "-" || event.key === "_")) rota.around(at, 2);
      else if (zooms && event.key === "0") rota.reset();
      else if (event.key === "Escape") { hideTip(); return; } else return;
      event.preventDefault();
      const words = [...showTip(figure, area, across, down).children].map((row) => row.textContent);
      said.textContent = words.join(", ");
    });
    area.addEventListener("blur", hideTip);
  }

  // ---- pointers
  function listenToPointers(figure, area) {
    const plot = area.querySelector(".plot"), zooms = figure.classList.contains("timed");
    const down = new Map(); // pointers on the plot: where they are, 0 to 1
    let start = null, mark = null; // where a gesture began
    const place = (event) => {
      const box = area.getBoundingClientRect();
      const clamp = (value) => Math.min(Math.max(value, 0), 1);
      return { x: clamp((event.clientX - box.left) / box.width), y: clamp((event.clientY - box.top) / box.height) };
    };
    const fraction = (x, view) => view[0] + x * (view[1] - view[0]);
    const begin = () => {
      const view = rota.view, xs = [...down.values()].map((at) => at.x);
      start = { view, xs, moved: false };
    };
    plot.addEventListener("pointerdown", (event) => {
      if (event.button > 0) return;
      down.set(event.pointerId, place(event));
      plot.setPointerCapture(event.pointerId);
      begin();
      if (zooms && event.pointerType !== "touch") mark = area.appendChild(element("div", { className: "dragged" }));
    });
    plot.addEventListener("pointermove", (event) => {
      const at = place(event);
      if (!down.has(event.pointerId)) { showTip(figure, area, at.x, at.y); return; }
      down.set(event.pointerId, at);
      const xs = [...down.values()].map((one) => one.x);
      if (!zooms) showTip(figure, area, at.x, at.y);
      else if (xs.length === 2 && start.xs.length === 2) pinch(xs);
      else if (mark) drag(at.x);
      else slide(at);
    });
    function pinch(xs) { // what was under each finger stays under it
      const [f1, f2] = start.xs.map((x) => fraction(x, start.view)), apart = xs[1] - xs[0];
      hideTip();
      start.moved = true;
      if (Math.abs(apart) < 0.02 || (f2 - f1) / apart <= 0) return;
      const size = (f2 - f1) / apart, from = f1 - xs[0] * size;
      rota.zoom(from, from + size);
    }
    function drag(x) {
      hideTip();
      const [a, b] = [start.xs[0], x].sort((p, q) => p - q);
      if (b - a > 0.006) start.moved = true;
      mark.style.left = 100 * a + "%";
      mark.style.width = 100 * (b - a) + "%";
    }
    function slide(at) { // one finger moves what is zoomed in, and reads values where nothing can move
      const [from, to] = start.view, shift = (start.xs[0] - at.x) * (to - from);
      if (Math.abs(at.x - start.xs[0]) > 0.02) start.moved = true;
      if (to - from > 0.98) showTip(figure, area, at.x, at.y);
      else if (start.moved) { hideTip(); rota.zoom(from + shift, to + shift); }
    }
    const release = (event) => {
      if (!down.has(event.pointerId)) return;
      const at = place(event), moved = start.moved;
      down.delete(event.pointerId);
      if (mark) {
        mark.remove();
        mark = null;
        const [a, b] = [start.xs[0], at.x].sort((p, q) => p - q);
        if (event.type === "pointerup" && b - a > 0.012) rota.zoom(fraction(a, start.view), fraction(b, start.view));
      }
      if (!moved && event.type === "pointerup") {
        showTip(figure, area, at.x, at.y);
        if (area.pressed) area.pressed(fraction(at.x, shownPart(figure)), at.y);
      }
      if (down.size) begin();
    };
    plot.addEventListener("pointerup", release);
    plot.addEventListener("pointercancel", release);
    plot.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") hideTip(); });
    plot.addEventListener("dblclick", () => { if (zooms) rota.reset(); });
    plot.addEventListener("wheel", (event) => {
      if (!zooms || !event.ctrlKey) return;
      event.preventDefault();
      rota.around(fraction(place(event).x, rota.view), event.deltaY > 0 ? 1.25 : 0.8);
    }, { passive: false });
  }
  rota.listen = (figure) => {
    const area = figure.querySelector(".area");
    listenToKeys(figure, area);
    listenToPointers(figure, area);
    if (figure.classList.contains("timed") && !timed.includes(figure)) timed.push(figure);
  };
  for (const figure of figures) rota.listen(figure);
  document.addEventListener("pointerdown", (event) => { if (!event.target.closest(".area")) hideTip(); });
  redraw();
  new ResizeObserver(redraw).observe(document.querySelector("main"));
})();
