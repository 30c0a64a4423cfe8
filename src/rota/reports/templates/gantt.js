// Nodes over time: how full they were, or the jobs themselves, drawn on a canvas over the page's own picture.
(() => {
  const { element } = rota;
  const section = document.getElementById("nodes");
  const figures = [...section.querySelectorAll("figure.gantt")].filter((figure) => figure.querySelector(".area"));
  if (!figures.length || !window.DecompressionStream) return;
  const DENSE_PX = 2, FEW = 1500; // bars narrower than this on average are a smear, unless they are few
  const LEAST_PX = 0.5; // of a GPU
  const OTHERS = 7; // the last colour: all tenants but the seven with most GPU time
  let data = null, tops = null, lanes = 0;
  let paint = "auto", showsJobs = false, which = [0, 0], chosen = -1, colours = null;
  const panes = [];
  const paintBox = document.getElementById("paint"), whichBox = document.getElementById("which");
  const about = document.getElementById("about"), key = document.getElementById("paint-key");
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // ---- one figure
  class Pane {
    constructor(figure, heat) {
      this.figure = figure;
      this.heat = heat; // an image, one row of pixels for each row of nodes
      this.number = figure.dataset.number === undefined ? -1 : +figure.dataset.number;
      this.run = this.number < 0 ? null : data.runs[this.number];
      this.area = figure.querySelector(".area");
      this.canvas = this.area.insertBefore(element("canvas", { ariaHidden: "true" }), this.area.querySelector(".plot").nextSibling);
      this.area.told = (fraction, down) => this.told(fraction, down);
      this.area.pressed = (fraction, down) => { const at = this.at(fraction, down); if (at >= 0) choose(this.run.job[at]); };
      this.area.climb = () => Math.max(1 / (which[1] - which[0]), 0.01); // a GPU, if there are not too many
      this.stale = this.seen = false;
      new IntersectionObserver((entries) => {
        this.seen = entries[entries.length - 1].isIntersecting;
        if (this.seen && this.stale) this.draw();
      }, { rootMargin: "200px" }).observe(this.area);
      addEventListener("beforeprint", () => { if (this.stale) this.draw(); }); // nobody scrolls on paper
    }
    touch() {
      this.stale = true;
      if (this.seen) requestAnimationFrame(() => { if (this.stale) this.draw(); });
    }
    visible() { // rectangles in the part of time and of the nodes that is shown
      const [from, to] = rota.view.map((part) => (part * data.length) / data.unit), run = this.run, places = [];
      for (let i = 0; i < run.job.length && run.start[i] < to; i++) {
        if (run.start[i] + run.length[i] > from && run.lane[i] + run.height[i] > which[0] && run.lane[i] < which[1]) places.push(i);
      }
      return places;
    }
    bars() { // whether they can be told apart
      const places = this.visible(), width = this.area.clientWidth || section.clientWidth, [from, to] = rota.view;
      const perUnit = (width * data.unit) / ((to - from) * data.length);
      const mean = places.reduce((sum, i) => sum + this.run.length[i], 0) / Math.max(places.length, 1) * perUnit;
      return (places.length < FEW || mean >= DENSE_PX) && (this.area.clientHeight || 400) / (which[1] - which[0]) >= LEAST_PX;
    }
    draw() {
      this.stale = false;
      const ratio = window.devicePixelRatio || 1, width = this.area.clientWidth, height = this.area.clientHeight;
      if (!width) { this.stale = true; return; }
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      const pen = this.canvas.getContext("2d");
      pen.scale(ratio, ratio);
      pen.fillStyle = css("--wash");
      pen.fillRect(0, 0, width, height);
      const places = this.run ? this.visible() : [];
      this.jobs = this.run !== null && showsJobs;
      pen.globalAlpha = this.jobs ? 0.28 : 1;
      if (!this.jobs || !this.run.whole) this.drawHeat(pen, width, height);
      pen.globalAlpha = 1;
      if (this.jobs) this.drawJobs(pen, places, width, height);
      this.drawTypes(pen, width, height);
      this.label(height);
      this.caption();
      this.figure.classList.add("painted");
    }
    caption() {
      const line = this.figure.querySelector("figcaption p");
      if (this.number < 0) return;
      this.written = this.written || line.textContent;
      line.textContent = this.jobs ? "One bar for each job and stretch of time, one lane for each GPU. Point at a bar; press it to follow its job." : this.written;
    }
    y(lane, height) { return ((lane - which[0]) / (which[1] - which[0])) * height; }
    drawHeat(pen, width, height) {
      if (!this.heat || !this.heat.width) return;
      const [from, to] = rota.view;
      pen.imageSmoothingEnabled = false;
      data.rows.forEach((first, row) => {
        const top = this.y(tops[first], height), next = data.rows[row + 1];
        const bottom = this.y(next === undefined ? lanes : tops[next], height);
        if (bottom <= 0 || top >= height) return;
        pen.drawImage(this.heat, from * this.heat.width, row, (to - from) * this.heat.width, 1, 0, top, width, bottom - top);
      });
    }
    drawJobs(pen, places, width, height) {
      const { start, length, lane, height: tall, job } = this.run;
      const [from, to] = rota.view, scale = (width * data.unit) / ((to - from) * data.length);
      const begin = (from * data.length) / data.unit, laneHeight = height / (which[1] - which[0]);
      const gap = laneHeight > 5 ? 1 : laneHeight > 2 ? 0.5 : 0;
      const groups = Array.from({ length: 8 }, () => []);
      for (const i of places) groups[colours[job[i]]].push(i);
      const rect = (i) => [(start[i] - begin) * scale, this.y(lane[i], height),
        Math.max(length[i] * scale - (length[i] * scale > 3 ? 0.75 : 0), 0.4), tall[i] * laneHeight - gap];
      pen.globalAlpha = chosen >= 0 ? 0.35 : 1;
      groups.forEach((group, colour) => {
        pen.fillStyle = css(`--f${colour}`);
        pen.beginPath();
        for (const i of group) pen.rect(...rect(i));
        pen.fill();
      });
      pen.globalAlpha = 1;
      if (chosen < 0) return;
      pen.fillStyle = css("--ink");
      for (const i of places) if (job[i] === chosen) { const [x, y, w, h] = rect(i); pen.fillRect(x, y, Math.max(w, 2), Math.max(h, 2)); }
    }
    drawTypes(pen, width, height) { // a line where another type of GPU begins
      pen.font = "600 11px system-ui, sans-serif";
      data.types.forEach((type, node) => {
        if (node && data.types[node - 1] === type) return;
        const y = Math.round(this.y(tops[node], height)) + 0.5;
        if (new Set(data.types).size < 2 || y < -1 || y > height) return;
        pen.fillStyle = css("--ink");
        if (node) pen.fillRect(0, y - 0.5, width, 1);
        const wide = pen.measureText(type).width + 10;
        pen.fillStyle = css("--paper");
        pen.globalAlpha = 0.85;
        pen.fillRect(0, y, wide, 16);
        pen.globalAlpha = 1;
        pen.fillStyle = css("--ink");
        pen.fillText(type, 5, y + 12);
      });
    }
    label(height) {
      const labels = this.figure.querySelector(".yticks");
      const made = [];
      const put = (text, lane, title = text) => {
        const top = this.y(lane, height);
        if (top < -1 || top > height - 8 || (made.length && top - made[made.length - 1].at < 15)) return;
        made.push({ at: top, span: element("span", { title, style: `top:${top}px` }, element("bdi", { textContent: text })) });
      };
      const single = data.gpus.findIndex((gpus, node) => tops[node] === which[0] && tops[node] + gpus === which[1]);
      if (single >= 0) for (let gpu = 0; gpu < data.gpus[single]; gpu++) put(`GPU ${gpu}`, tops[single] + gpu);
      else data.nodes.forEach((name, node) => put(data.labels[node], tops[node], name));
      labels.replaceChildren(...made.map((one) => one.span));
    }
    at(fraction, down) { // the rectangle there; -1 if there is none
      if (!this.run) return -1;
      const time = (fraction * data.length) / data.unit, lane = which[0] + Math.floor(down * (which[1] - which[0]));
      const { start, length, lane: lows, height } = this.run;
      const slack = 2 * ((rota.view[1] - rota.view[0]) * data.length) / data.unit / Math.max(this.area.clientWidth, 1);
      let best = -1;
      for (let i = 0; i < start.length && start[i] <= time + slack; i++) {
        if (lane < lows[i] || lane >= lows[i] + height[i] || start[i] + length[i] < time - slack) continue;
        if (best < 0 || (start[i] <= time && time < start[i] + length[i])) best = i;
      }
      return best;
    }
    told(fraction, down) {
      const lane = which[0] + Math.min(Math.floor(down * (which[1] - which[0])), which[1] - which[0] - 1);
      const node = nodeOf(lane), line = (...words) => element("div", {}, ...words);
      const type = data.types[node] ? ` · ${data.types[node]}` : "";
      const rows = [line(this.jobs ? `${data.nodes[node]}${type} · GPU ${lane - tops[node]}` : `${this.rowName(node)}${type}`)];
      const i = this.jobs ? this.at(fraction, down) : -1;
      if (i >= 0) rows.push(...this.toldJob(i, line));
      else rows.push(line(this.toldHeat(fraction, node)));
      return rows;
    }
    toldJob(i, line) {
      const run = this.run, job = run.job[i], start = run.start[i] * data.unit, end = start + run.length[i] * data.unit;
      const wait = data.lives[this.number].waited[job];
      return [
        line(element("strong", { textContent: data.jobs.id[job] })),
        line(`${data.jobs.tenants[data.jobs.tenant[job]] || "no tenant"} · ${gpus(data.jobs.gpus[job])}`),
        line(`${rota.moment(start)} to ${rota.moment(end)} (${rota.duration(end - start)}), ${run.ends[run.end[i]]}`),
        wait === null ? null : line(`waited ${rota.duration(wait * data.unit)} in all`),
      ].filter(Boolean);
    }
    rowOf(node) { // first and last node of the row of the picture
      const row = data.rows.findLastIndex((first) => first <= node);
      return [data.rows[row], (data.rows[row + 1] || data.nodes.length) - 1];
    }
    rowName(node) {
      const [first, last] = this.rowOf(node);
      return first === last ? data.nodes[node] : `${data.nodes[first]} to ${data.nodes[last]}`;
    }
    toldHeat(fraction, node) {
      const share = this.share(fraction, node);
      if (share === null) return "";
      if (this.number < 0) return share === 0 ? "the same" : `${Math.abs(100 * share).toFixed(0)}% of its GPUs ${share > 0 ? "more" : "fewer"} held`;
      const [first, last] = this.rowOf(node), several = last - first + 1;
      return `${(100 * share).toFixed(0)}% of the GPUs held` + (several > 1 ? ` on ${several} nodes` : "");
    }
    share(fraction, node) { // as the picture has it
      this.pixels = this.pixels || pixelsOf(this.heat);
      if (!this.pixels) return null;
      const column = Math.min(Math.floor(fraction * this.pixels.width), this.pixels.width - 1);
      const row = data.rows.findLastIndex((first) => first <= node);
      const at = 4 * (row * this.pixels.width + column), alpha = this.pixels.data[at + 3] / 255;
      return this.number < 0 && this.pixels.data[at] > 128 ? -alpha : alpha;
    }
  }
  const gpus = (count) => (count === 1 ? "1 GPU" : `${count} GPUs`);
  function nodeOf(lane) {
    let low = 0, high = tops.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (tops[middle] <= lane) low = middle; else high = middle - 1;
    }
    return low;
  }
  function pixelsOf(image) {
    if (!image || !image.width) return null;
    const canvas = element("canvas", { width: image.width, height: image.height }), pen = canvas.getContext("2d");
    pen.drawImage(image, 0, 0);
    return pen.getImageData(0, 0, canvas.width, canvas.height);
  }
  const loaded = (address) => new Promise((resolve) => {
    const image = new Image();
    image.onload = () => resolve(image);
    image.onerror = () => resolve(null);
    image.src = address;
  });

  // ---- colours
  const SIZES = [[1, "1 GPU"], [4, "2-4 GPUs"], [8, "5-8 GPUs"], [Infinity, ">8 GPUs"]];
  function colourJobs() {
    const byTenant = paint === "tenant" || (paint === "auto" && data.jobs.tenants.length > 1 && data.jobs.tenants.length <= 8);
    if (!byTenant) {
      colours = data.jobs.gpus.map((count) => SIZES.findIndex(([most]) => count <= most));
      return SIZES.map(([, name]) => name);
    }
    const held = new Map();
    const run = data.runs.find(Boolean);
    run.job.forEach((job, i) => held.set(data.jobs.tenant[job], (held.get(data.jobs.tenant[job]) || 0) + run.length[i] * run.height[i]));
    const ranked = [...held.keys()].sort((a, b) => held.get(b) - held.get(a));
    const many = data.jobs.tenants.length > 8;
    colours = data.jobs.tenant.map((tenant) => { const at = ranked.indexOf(tenant); return at < 0 || (many && at >= OTHERS) ? OTHERS : at % 8; });
    const names = ranked.slice(0, many ? OTHERS : 8).map((tenant) => data.jobs.tenants[tenant] || "(none)");
    return many ? [...names, `${data.jobs.tenants.length - OTHERS} others`] : names;
  }
  function redraw() { // jobs are shown under all policies or under none
    showsJobs = paint === "auto" ? panes.every((pane) => !pane.run || pane.bars()) : paint !== "full";
    key.hidden = !showsJobs;
    for (const pane of panes) pane.touch();
  }
  function recolour() {
    const names = colourJobs();
    key.replaceChildren(...names.map((name, colour) => element("span", {}, element("i", { className: `f${colour}` }), name)));
    redraw();
  }

  // ---- one job
  function choose(job) {
    chosen = job;
    const rows = data.policies.map((name, number) => {
      const run = data.runs[number], mine = [];
      if (run) run.job.forEach((of, i) => { if (of === job) mine.push(i); });
      return { name, number, run, mine };
    }).filter((row) => row.run);
    const table = element("table", { className: "cards" }, element("thead", {}, element("tr", {},
      ...["Policy", "waited", "first start", "end", "starts", "nodes"].map((head) => element("th", { scope: "col", textContent: head })))),
    element("tbody", {}, ...rows.map((row) => jobRow(row, job))));
    const clear = element("button", { type: "button", textContent: "Let go" });
    clear.addEventListener("click", () => { chosen = -1; about.hidden = true; redraw(); });
    const zoomed = element("button", { type: "button", textContent: "Zoom to it" });
    zoomed.addEventListener("click", () => zoomTo(rows, job));
    const tenant = data.jobs.tenants[data.jobs.tenant[job]];
    about.replaceChildren(element("p", {}, element("strong", { textContent: data.jobs.id[job] }),
      ` ${tenant ? `of ${tenant}, ` : ""}${gpus(data.jobs.gpus[job])}, submitted ${rota.moment(data.jobs.submit[job] * data.unit, true)} `, zoomed, clear), table);
    about.hidden = false;
    redraw();
    return rows;
  }
  function jobRow({ name, number, run, mine }, job) {
    const nodes = [...new Set(mine.map((i) => data.nodes[nodeOf(run.lane[i])]))];
    const life = data.lives[number], submit = data.jobs.submit[job];
    const at = (since) => (since === null ? "–" : rota.moment((submit + since) * data.unit, true));
    const cells = [life.waited[job] === null ? "–" : rota.duration(life.waited[job] * data.unit), at(life.start[job]), at(life.end[job]),
      String(life.starts[job]), nodes.slice(0, 4).join(", ") + (nodes.length > 4 ? ` and ${nodes.length - 4} more` : "")];
    const heads = ["waited", "first start", "end", "starts", "nodes"];
    return element("tr", {}, element("th", { scope: "row" }, element("span", { className: "who" }, rota.swatch(number), rota.name(name))),
      ...cells.map((text, i) => element("td", { "data-label": heads[i] }, element("span", { textContent: text }))));
  }
  function zoomTo(rows, job) {
    const from = data.jobs.submit[job], ends = rows.map(({ number }) => from + (data.lives[number].end[job] || 0));
    const to = Math.max(from + 1, ...ends), room = 0.06 * (to - from);
    const part = (at) => (at * data.unit) / data.length;
    rota.zoom(part(from - room), part(to + room));
  }
  rota.findJob = async (id) => { // true if it is listed
    await ready;
    const job = data.jobs.id.indexOf(id);
    if (job < 0) return false;
    zoomTo(choose(job), job);
    section.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
    return true;
  };

  // ---- the difference of two policies
  rota.difference = async (figure, first, second) => {
    await ready;
    const [a, b] = [first, second].map((number) => pixelsOf(panes.find((pane) => pane.number === number)?.heat));
    if (!a || !b) { figure.hidden = true; return; }
    const canvas = element("canvas", { width: a.width, height: a.height }), pen = canvas.getContext("2d");
    const made = pen.createImageData(a.width, a.height);
    for (let i = 0; i < made.data.length; i += 4) {
      const more = b.data[i + 3] - a.data[i + 3];
      made.data.set(more > 0 ? [64, 132, 214, more] : [213, 94, 0, -more], i);
    }
    pen.putImageData(made, 0, 0);
    figure.hidden = false;
    let pane = panes.find((one) => one.figure === figure);
    if (!pane) { pane = new Pane(figure, canvas); panes.push(pane); }
    pane.heat = canvas;
    pane.pixels = null;
    pane.touch();
  };

  // ---- tools
  function addTools() {
    const option = (value, text) => element("option", { value, textContent: text });
    paintBox.append(option("auto", "what fits"), option("full", "how full"), option("tenant", "jobs by tenant"), option("size", "jobs by size"));
    paintBox.addEventListener("change", () => { paint = paintBox.value; recolour(); });
    const types = [...new Set(data.types)];
    whichBox.append(option(`0:${lanes}`, "all"));
    const span = (from, to) => `${tops[from]}:${to === data.nodes.length ? lanes : tops[to]}`;
    if (types.length > 1) for (const type of types) whichBox.append(option(span(data.types.indexOf(type), data.types.lastIndexOf(type) + 1), `all ${type || "others"}`));
    if (data.nodes.length > 1) data.nodes.forEach((name, node) => whichBox.append(option(span(node, node + 1), name)));
    whichBox.addEventListener("change", () => { which = whichBox.value.split(":").map(Number); redraw(); });
    const box = document.getElementById("job");
    document.getElementById("find").addEventListener("submit", async (event) => {
      event.preventDefault();
      if (await rota.findJob(box.value.trim())) return;
      about.hidden = false;
      about.replaceChildren(element("p", { textContent: `No job ${box.value.trim()} among the ${data.jobs.id.length.toLocaleString("en")} that are listed.` }));
    });
    section.querySelector(".tools").hidden = false;
  }
  async function begin() {
    data = await rota.drawn();
    tops = [];
    for (const count of data.gpus) { tops.push(lanes); lanes += count; }
    which = [0, lanes];
    for (const figure of figures) panes.push(new Pane(figure, await loaded(figure.querySelector("image").getAttribute("href"))));
    addTools();
    recolour();
    section.classList.add("drawn");
    rota.listeners.push(redraw);
    new ResizeObserver(redraw).observe(section);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    for (const folded of section.querySelectorAll("details")) folded.addEventListener("toggle", redraw);
  }
  const ready = begin();
})();
