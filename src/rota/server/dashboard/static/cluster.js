// The picture of all devices: one cell each, drawn on a canvas, read with the mouse, a finger or the arrow keys.
"use strict";

(() => {
  const { one, all, toast } = rota;
  const box = one("#grid"), canvas = one("#grid canvas"), tip = one("#grid .tip"), pen = canvas.getContext("2d");
  const SIZES = [[60, 22, true], [300, 16, true], [1500, 11, false], [6000, 8, false], [Infinity, 6, false]];
  const GAP = 2, MARGIN = 10, LABEL = 15, ACROSS = 8;
  let data = null, cells = [], tiles = [], at = -1, paint = "tenant", only = "", drawing = 0, asking = false, missed = false;

  // -- the data ----------------------------------------------------------------------------------

  async function fetchGrid() {
    if (asking) { missed = true; return; }
    asking = true;
    const began = performance.now();
    try {
      const answer = await fetch("/cluster/grid", { headers: { accept: "application/json" } });
      if (answer.ok) show(await answer.json());
    } catch (_) { /* the banner says that nobody answers */ }
    const rest = Math.min(10000, Math.max(400, 3 * (performance.now() - began)));
    setTimeout(() => {
      asking = false;
      if (missed) { missed = false; fetchGrid(); }
    }, rest);
  }

  function show(grid) {
    const shape = (one) => one && one.nodes.map((node) => `${node[0]}:${node[4].length}`).join();
    const same = shape(data) === shape(grid);
    data = grid;
    cells = [];
    for (const [n, node] of grid.nodes.entries()) {
      for (const [index, device] of node[4].entries()) cells.push({ node: n, index, device, is: read(node, device) });
    }
    if (!same || !tiles.length) lay();
    legend();
    draw();
    if (at >= 0) point(at, false);
    box.dataset.drawn = String(cells.length);
  }

  function read(node, device) {
    const [holders = [], granted = 0, busy = -1, used = 0, whole = 0, suspended = [], sick = ""] = device || [];
    return { holders, granted, busy, used, whole, suspended, sick, isClosed: node[1] !== "up", isLost: node[1] === "lost" };
  }

  // -- where things are --------------------------------------------------------------------------

  function lay() {
    const count = cells.length;
    const [, size, hasLabels] = SIZES.find(([most]) => count <= most);
    const width = box.clientWidth;
    tiles = [];
    let x = 0, y = 0, high = 0, first = 0;
    for (const node of data.nodes) {
      const devices = node[4].length, across = Math.min(devices, ACROSS) || 1, down = Math.ceil(devices / ACROSS) || 1;
      const label = hasLabels ? Math.ceil(measure(node[0])) : 0;
      const w = Math.max(across * (size + GAP) - GAP, Math.min(label, 150)), h = down * (size + GAP) - GAP + (hasLabels ? LABEL : 0);
      if (x && x + w > width) { x = 0; y += high + MARGIN; high = 0; }
      tiles.push({ x, y, w, h, first, devices, size, top: hasLabels ? LABEL : 0 });
      x += w + (hasLabels ? 2 * MARGIN : MARGIN * size / 11);
      high = Math.max(high, h);
      first += devices;
    }
    const height = y + high + 2, scale = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(Math.max(height, 1) * scale);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    cells.forEach((cell) => { cell.box = null; });
  }

  function measure(text) {
    pen.font = FONT;
    return pen.measureText(text).width;
  }

  const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';

  function placeOf(i) {
    const tile = tiles[cells[i].node], k = i - tile.first, step = tile.size + GAP;
    return { x: tile.x + (k % ACROSS) * step, y: tile.y + tile.top + Math.floor(k / ACROSS) * step, size: tile.size };
  }

  function cellAt(x, y) {
    for (const tile of tiles) {
      if (x < tile.x || y < tile.y + tile.top || x >= tile.x + tile.w || y >= tile.y + tile.h + 1) continue;
      const step = tile.size + GAP, k = Math.floor((y - tile.y - tile.top) / step) * ACROSS + Math.floor((x - tile.x) / step);
      return k < tile.devices && (x - tile.x) / step < ACROSS ? tile.first + k : -1;
    }
    return -1;
  }

  // -- what it looks like ------------------------------------------------------------------------

  let colours = {};
  function readColours() {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue(name).trim();
    colours = { ink: get("--ink"), soft: get("--soft"), line: get("--line"), wash: get("--wash"), paper: get("--paper"), bad: get("--bad"), warn: get("--warn"), accent: get("--accent"), edge: get("--edge") };
    colours.fill = [...Array(8).keys()].map((i) => get(`--f${i}`));
    colours.isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  }

  function colourOf(cell, job) {
    if (paint === "busy") return busyColour(cell.is.busy);
    if (job < 0 || !data.jobs[job]) return colours.edge;
    if (paint === "tenant") return colours.fill[data.tenants[data.jobs[job][2]][1]];
    const number = parseInt(data.jobs[job][0].replace("_", ""), 10) || 0;
    return `hsl(${(number * 137.508) % 360} 46% ${colours.isDark ? 58 : 54}%)`;
  }

  function busyColour(busy) {
    if (busy < 0) return colours.edge;
    const [low, high] = colours.isDark ? [24, 66] : [88, 38];
    return `hsl(211 60% ${low + (high - low) * Math.min(1, busy)}%)`;
  }

  function draw() {
    cancelAnimationFrame(drawing);
    drawing = requestAnimationFrame(drawNow);
  }

  function drawNow() {
    if (!data) return;
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.font = FONT;
    pen.textBaseline = "top";
    for (const [n, node] of data.nodes.entries()) {
      const tile = tiles[n];
      if (!tile.top) continue;
      pen.fillStyle = node[1] === "up" ? colours.soft : node[1] === "lost" ? colours.bad : colours.warn;
      pen.fillText(fitted(node[0], tile.w), tile.x, tile.y);
    }
    for (let i = 0; i < cells.length; i += 1) drawCell(i);
    if (at >= 0 && at < cells.length) {
      const { x, y, size } = placeOf(at);
      pen.strokeStyle = colours.ink;
      pen.lineWidth = 2;
      pen.strokeRect(x - 1, y - 1, size + 2, size + 2);
    }
  }

  function fitted(text, width) {
    if (pen.measureText(text).width <= width) return text;
    let cut = text;
    while (cut && pen.measureText(`…${cut}`).width > width) cut = cut.slice(1);
    return `…${cut}`;
  }

  function drawCell(i) {
    const cell = cells[i], is = cell.is, { x, y, size } = placeOf(i);
    const isDim = only && !matches(cell);
    pen.globalAlpha = isDim ? 0.14 : 1;
    if (!is.holders.length) {
      pen.fillStyle = colours.wash;
      pen.fillRect(x, y, size, size);
      pen.strokeStyle = colours.line;
      pen.lineWidth = 1;
      pen.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
    } else {
      const share = size / is.holders.length;
      is.holders.forEach((job, k) => {
        pen.fillStyle = colourOf(cell, job);
        pen.fillRect(x + k * share, y, share, size);
      });
      if (is.granted < 0.999) {
        pen.fillStyle = colours.wash;
        pen.fillRect(x, y, size, size * (1 - is.granted));
      }
      if (is.holders.length > 1) hatch(x, y, size, colours.paper, 1);
    }
    if (is.suspended.length) hatch(x, y, size, is.holders.length ? colours.ink : colours.soft, -1);
    if (is.isClosed) {
      pen.strokeStyle = is.isLost ? colours.bad : colours.warn;
      pen.lineWidth = size > 9 ? 2 : 1.5;
      pen.strokeRect(x + 1, y + 1, size - 2, size - 2);
    }
    if (is.sick || is.isLost) cross(x, y, size);
    pen.globalAlpha = 1;
  }

  function hatch(x, y, size, colour, way) {
    pen.save();
    pen.beginPath();
    pen.rect(x, y, size, size);
    pen.clip();
    pen.strokeStyle = colour;
    pen.lineWidth = 1;
    pen.beginPath();
    for (let d = -size; d < size; d += size > 9 ? 5 : 3) {
      pen.moveTo(x + d, way > 0 ? y + size : y);
      pen.lineTo(x + d + size, way > 0 ? y : y + size);
    }
    pen.stroke();
    pen.restore();
  }

  function cross(x, y, size) {
    pen.strokeStyle = colours.bad;
    pen.lineWidth = size > 9 ? 2 : 1.4;
    pen.beginPath();
    pen.moveTo(x + 2, y + 2);
    pen.lineTo(x + size - 2, y + size - 2);
    pen.moveTo(x + size - 2, y + 2);
    pen.lineTo(x + 2, y + size - 2);
    pen.stroke();
  }

  // -- whose it is -------------------------------------------------------------------------------

  function matches(cell) {
    const node = data.nodes[cell.node];
    const texts = [node[0], node[1], node[3]];
    for (const job of [...cell.is.holders, ...cell.is.suspended]) {
      const found = data.jobs[job];
      if (found) texts.push(found[0], found[1], found[3], data.tenants[found[2]][0]);
    }
    return texts.some((text) => text.toLowerCase().includes(only));
  }

  function legend() {
    const held = new Map();
    for (const { is } of cells) {
      for (const job of is.holders) {
        const found = data.jobs[job];
        if (found) held.set(found[2], (held.get(found[2]) || 0) + is.granted / is.holders.length);
      }
    }
    const rows = [...held].sort((a, b) => b[1] - a[1]);
    const parts = rows.slice(0, 12).map(([tenant, granted]) => {
      const button = document.createElement("button"), swatch = document.createElement("span");
      button.type = "button";
      button.className = "quiet";
      swatch.className = `swatch f${data.tenants[tenant][1]}`;
      swatch.hidden = paint !== "tenant";
      button.append(swatch, `${data.tenants[tenant][0]} ${Math.round(granted * 10) / 10}`);
      button.title = "Show only this tenant's devices";
      button.addEventListener("click", () => seek(only === data.tenants[tenant][0].toLowerCase() ? "" : data.tenants[tenant][0]));
      return button;
    });
    if (rows.length > 12) parts.push(` and ${rows.length - 12} tenants more`);
    const focus = all("#legend button").indexOf(document.activeElement);
    one("#legend").replaceChildren(...parts);
    if (focus >= 0 && all("#legend button")[focus]) all("#legend button")[focus].focus();
  }

  function seek(text) {
    one("#only").value = text;
    only = text.trim().toLowerCase();
    draw();
  }

  function words(i) {
    const cell = cells[i], is = cell.is, [name, state, reason, type] = data.nodes[cell.node];
    const lines = [[`${name}:${cell.index}`, type]];
    for (const job of is.holders) lines.push(jobWords(job, "job"));
    if (is.holders.length && is.granted < 0.999) lines.push(["", `${Math.round(is.granted * 100)}% of it granted`]);
    if (is.busy >= 0) lines.push(["", `${Math.round(is.busy * 100)}% busy`]);
    if (is.used) lines.push(["", `${is.used}${is.whole ? ` of ${is.whole}` : ""} GiB used`]);
    for (const job of is.suspended) lines.push(jobWords(job, "suspended: job"));
    if (!is.holders.length && !is.sick && !is.isClosed) lines.push(["", "free"]);
    if (is.isClosed) lines.push(["", `node is ${state}${reason ? `: ${reason}` : ""}`]);
    if (is.sick) lines.push(["", `unhealthy: ${is.sick}`]);
    return lines;
  }

  function jobWords(job, what) {
    const found = data.jobs[job];
    if (!found) return [what, "not known here"];
    return [`${what} ${found[0]}`, [found[1], data.tenants[found[2]][0], found[3], `${found[4]} device${found[4] === 1 ? "" : "s"}`].filter(Boolean).join(" · ")];
  }

  function point(i, isSaid = true) {
    at = i;
    draw();
    if (i < 0 || i >= cells.length) { tip.hidden = true; return; }
    const lines = words(i), { x, y, size } = placeOf(i);
    tip.replaceChildren(...lines.map(([head, text]) => {
      const line = document.createElement("p"), strong = document.createElement("b");
      strong.textContent = head;
      line.append(strong, head ? ` ${text}` : text);
      return line;
    }));
    tip.hidden = false;
    const left = Math.min(Math.max(0, x - 10), Math.max(0, box.clientWidth - tip.offsetWidth - 2));
    tip.style.left = `${left}px`;
    tip.style.top = `${y + size + 8}px`;
    if (isSaid) one("#grid-said").textContent = lines.map((line) => line.join(" ")).join(", ");
  }

  function open(i) {
    const is = i >= 0 && cells[i].is;
    const job = is && (is.holders[0] ?? is.suspended[0]);
    if (job === undefined || job === false) return;
    if (data.jobs[job]) location.href = `/jobs/${data.jobs[job][0]}`;
    else toast("This job has just gone");
  }

  // -- hands -------------------------------------------------------------------------------------

  canvas.addEventListener("pointermove", (event) => {
    const i = cellAt(event.offsetX, event.offsetY);
    canvas.style.cursor = i >= 0 && (cells[i].is.holders.length || cells[i].is.suspended.length) ? "pointer" : "default";
    if (i !== at) point(i, false);
  });
  canvas.addEventListener("pointerleave", () => { if (document.activeElement !== box) point(-1); });
  canvas.addEventListener("click", (event) => {
    const i = cellAt(event.offsetX, event.offsetY);
    if (matchMedia("(pointer: coarse)").matches && i !== at) point(i);
    else open(i);
  });
  box.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: ACROSS, ArrowUp: -ACROSS }[event.key];
    if (step && cells.length) {
      event.preventDefault();
      const next = at < 0 ? 0 : Math.min(cells.length - 1, Math.max(0, at + step));
      point(next);
      const { y } = placeOf(next), top = box.getBoundingClientRect().top + y;
      if (top < 60 || top > innerHeight - 40) scrollBy({ top: top - innerHeight / 2 });
    } else if (event.key === "Enter") open(at);
    else if (event.key === "Escape") point(-1);
  });
  box.addEventListener("blur", () => point(-1));
  one("#only").addEventListener("input", (event) => { only = event.target.value.trim().toLowerCase(); draw(); });
  for (const button of all("[data-paint]")) {
    button.addEventListener("click", () => {
      paint = button.dataset.paint;
      for (const other of all("[data-paint]")) other.setAttribute("aria-pressed", String(other === button));
      legend();
      draw();
    });
  }

  readColours();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); draw(); });
  let wide = box.clientWidth;
  new ResizeObserver(() => {
    if (box.clientWidth === wide || !data) return;
    wide = box.clientWidth;
    lay();
    draw();
  }).observe(box);
  for (const topic of ["jobs", "nodes", "usage", "grid", "all"]) document.body.addEventListener(`live-${topic}`, fetchGrid);
  fetchGrid();
})();
