// Two policies of one's choice: how many wait less, who gains and who loses most, and what is held when.
(() => {
  const { element } = rota;
  const section = document.getElementById("pairs"), box = document.getElementById("duel");
  if (!section || !rota.findJob) return;
  const from = document.getElementById("from"), to = document.getElementById("to");
  const share = (part, all) => `${((100 * part) / Math.max(all, 1)).toFixed(0)}%`;
  let data = null, figure = null;

  function pairOf(first, second) { // packed once for either direction
    const straight = data.pairs.find((pair) => pair.first === first && pair.second === second);
    if (straight) return straight;
    const pair = data.pairs.find((one) => one.first === second && one.second === first);
    const turn = (movers) => movers.map(([job, a, b]) => [job, b, a]);
    return pair && { counts: [...pair.counts].reverse(), gained: pair.lost, lost: pair.gained, gains: turn(pair.losses), losses: turn(pair.gains) };
  }
  function movers(title, list, first, second) {
    const names = [data.policies[first], data.policies[second]];
    const heads = ["Job", "GPUs", "Tenant", `under ${names[0]}`, `under ${names[1]}`, "difference"];
    const rows = list.map(([job, a, b]) => {
      const link = element("button", { type: "button", className: "job", title: "Zoom to it" }, rota.name(data.jobs.id[job]));
      link.addEventListener("click", () => rota.findJob(data.jobs.id[job]));
      const cells = [[data.jobs.gpus[job]], [data.jobs.tenants[data.jobs.tenant[job]] || "–"], [rota.duration(a), a], [rota.duration(b), b],
        [(b > a ? "+" : "") + rota.duration(b - a), b - a]];
      return element("tr", {}, element("th", { scope: "row" }, link), ...cells.map(([text, value], i) => element("td",
        { "data-label": rota.loose(heads[i + 1]), "data-value": value === undefined ? text : value }, i === 1 ? rota.name(text) : element("span", { textContent: text }))));
    });
    const table = element("table", { className: "cards sortable" }, element("caption", { textContent: title }),
      element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", { scope: "col" }, rota.name(head))))),
      element("tbody", {}, ...rows));
    return element("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: title }, list.length ? table : element("p", { className: "note", textContent: `${title}: nobody.` }));
  }
  function show() {
    const first = +from.value, second = +to.value, pair = pairOf(first, second);
    box.hidden = false;
    if (!pair) {
      box.replaceChildren(element("p", { className: "note", textContent: "Choose two different policies." }));
      if (figure) figure.hidden = true;
      return;
    }
    const [shorter, same, longer] = pair.counts, all = shorter + same + longer;
    const words = same === all ? `${all === 1 ? "The one job that finished under both waits" : `All ${all.toLocaleString("en")} jobs that finished under both wait`} the same.`
      : `Of ${all.toLocaleString("en")} jobs that finished under both, ${share(shorter, all)} wait less under ${data.policies[second]}`
      + ` (by ${rota.duration(pair.gained)} on average), ${share(same, all)} the same, and ${share(longer, all)} more (by ${rota.duration(pair.lost)}).`;
    box.replaceChildren(element("p", { className: "lead", textContent: words }),
      element("div", { className: "pair" }, movers("Gain most", pair.gains, first, second), movers("Lose most", pair.losses, first, second)));
    for (const table of box.querySelectorAll("table")) rota.sortable(table);
    showDifference(first, second);
  }
  function showDifference(first, second) {
    if (!figure) {
      const model = document.querySelector("figure.gantt");
      figure = model.cloneNode(true);
      delete figure.dataset.number;
      delete figure.dataset.policy;
      figure.classList.remove("off", "painted");
      for (const part of figure.querySelectorAll("canvas, image, .words, .cursor, .tip")) part.remove();
      section.append(figure);
      rota.listen(figure);
    }
    const names = [data.policies[first], data.policies[second]];
    figure.querySelector("h3").replaceChildren("What is held, and when");
    const key = (red, green, blue, text) => element("span", {}, element("i", { style: `background:rgb(${red},${green},${blue})` }), text);
    figure.querySelector("figcaption p").className = "key";
    figure.querySelector("figcaption p").replaceChildren(key(64, 132, 214, `more under ${names[1]}`), key(213, 94, 0, `more under ${names[0]}`));
    figure.querySelector(".plot").setAttribute("aria-label", `GPUs held by each node over time: ${names[1]} against ${names[0]}.`);
    rota.difference(figure, first, second);
    for (const listen of rota.listeners) listen();
  }
  async function begin() {
    data = await rota.drawn();
    if (data.policies.length < 2) return;
    for (const menu of [from, to]) {
      data.policies.forEach((name, number) => menu.append(element("option", { value: String(number), textContent: name })));
      menu.addEventListener("change", show);
    }
    from.value = section.dataset.base;
    to.value = String(data.policies.findIndex((_, number) => number !== +section.dataset.base));
    section.querySelector(".tools").hidden = false;
    show();
  }
  begin();
})();
