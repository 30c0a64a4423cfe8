// Tables: sorted by a press on a head (or by a menu, where a phone shows cards), filtered by what is typed,
// accounts opened and closed.
(() => {
  const { element } = rota;
  const FILTERED = 12; // tables of more rows than this get a field to filter them

  const valueOf = (row, column) => {
    const cell = row.children[column];
    if (cell.dataset.value === undefined) return cell.textContent.trim().toLowerCase();
    return cell.dataset.value === "" ? null : Number.isNaN(+cell.dataset.value) ? cell.dataset.value : +cell.dataset.value;
  };
  function compare(a, b, up) { // what is missing stays at the end
    if (a === null || b === null) return (a === null) - (b === null);
    const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
    return up ? order : -order;
  }
  function families(rows) { // accounts with what is below them
    const roots = [], of = new Map();
    for (const row of rows) {
      const own = { row, below: [] };
      if (row.dataset.children) of.set(row.dataset.name, own);
      const above = of.get(row.dataset.parent);
      (above ? above.below : roots).push(own);
    }
    return roots;
  }
  function sort(table, column, up) {
    const body = table.tBodies[0];
    const ordered = (list) => [...list].sort((a, b) => compare(valueOf(a.row, column), valueOf(b.row, column), up))
      .flatMap((one) => [one.row, ...ordered(one.below)]);
    body.append(...ordered(table.roots));
    [...table.tHead.rows[0].cells].forEach((head, i) => {
      if (i === column) head.setAttribute("aria-sort", up ? "ascending" : "descending"); else head.removeAttribute("aria-sort");
    });
    const menu = table.parentElement.querySelector(".order select");
    if (menu) menu.value = `${column}:${up}`;
  }
  const sorts = (head) => head.dataset.sort !== "no"; // a column whose values have several units has no order
  function addHeads(table) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      if (!sorts(head)) return;
      const button = element("button", { type: "button" }, ...head.childNodes);
      button.addEventListener("click", () => sort(table, column, head.getAttribute("aria-sort") ? head.getAttribute("aria-sort") !== "ascending" : column === 0 || table.dataset.first !== "high"));
      head.append(button);
    });
  }
  function orders(rows, column) { // how the two orders of a column are called
    return rows.some((row) => typeof valueOf(row, column) === "string") ? ["A to Z", "Z to A"] : ["lowest first", "highest first"];
  }
  function tools(table) {
    const bar = element("div", { className: "table-tools" });
    const rows = [...table.tBodies[0].rows];
    if (rows.length > FILTERED) {
      const field = element("input", { type: "search", placeholder: "Filter", ariaLabel: `Filter ${table.caption ? table.caption.textContent : "the table"}` });
      const count = element("output", {});
      field.addEventListener("input", () => filter(table, field.value.trim().toLowerCase(), count));
      bar.append(field, count);
    }
    const heads = [...table.tHead.rows[0].cells];
    const menu = element("select", { ariaLabel: "Sort by" }, element("option", { value: "", textContent: "Sort by" }),
      ...heads.flatMap((head, column) => (sorts(head) ? [true, false] : []).map((up) => element("option",
        { value: `${column}:${up}`, textContent: `${head.textContent.trim()}, ${orders(rows, column)[up ? 0 : 1]}` }))));
    menu.addEventListener("change", () => { const [column, up] = menu.value.split(":"); if (menu.value) sort(table, +column, up === "true"); });
    bar.append(element("label", { className: "order" }, menu));
    if (rows.length > 1) table.before(bar);
  }
  function filter(table, text, count) {
    let left = 0;
    const walk = (list, shownAbove) => list.map((one) => {
      const hit = one.row.textContent.toLowerCase().includes(text);
      const below = walk(one.below, shownAbove || hit).some(Boolean);
      const kept = hit || shownAbove || below;
      one.row.classList.toggle("filtered", !kept);
      one.row.classList.toggle("sought", text !== "" && kept);
      left += kept;
      return kept;
    });
    walk(table.roots, false);
    count.textContent = text ? `${left} of ${table.tBodies[0].rows.length}` : "";
  }
  function fold(table) { // accounts begin closed
    const open = (one, on) => {
      one.row.querySelector("th .fold").setAttribute("aria-expanded", String(on));
      for (const child of one.below) {
        child.row.classList.toggle("folded", !on);
        if (child.below.length && !on) open(child, false);
      }
    };
    const visit = (one, depth) => {
      one.row.style.setProperty("--depth", depth);
      for (const child of one.below) visit(child, depth + 1);
      if (!one.below.length) return;
      const head = one.row.cells[0];
      const button = element("button", { type: "button", className: "fold", ariaLabel: `Tenants of ${one.row.dataset.name}` });
      button.addEventListener("click", () => open(one, button.getAttribute("aria-expanded") !== "true"));
      head.prepend(button);
      open(one, false);
    };
    for (const one of table.roots) visit(one, 0);
  }
  rota.sortable = (table) => {
    table.roots = families([...table.tBodies[0].rows]);
    addHeads(table);
    tools(table);
    if (table.classList.contains("tree")) fold(table);
  };
  function choosable(group) { // one table at a time, by the name of its number
    const tables = [...group.querySelectorAll(".scroll")];
    if (tables.length < 2) return;
    const buttons = tables.map((table) => element("button", { type: "button", textContent: table.dataset.title }));
    const choose = (chosen) => buttons.forEach((button, i) => {
      button.setAttribute("aria-pressed", String(i === chosen));
      tables[i].hidden = i !== chosen;
    });
    buttons.forEach((button, i) => button.addEventListener("click", () => choose(i)));
    group.prepend(element("div", { className: "tabs", role: "group", ariaLabel: "What the table shows" }, ...buttons));
    choose(0);
  }
  for (const group of document.querySelectorAll(".groups")) choosable(group);
  for (const table of document.querySelectorAll("table.sortable")) if (!table.roots) rota.sortable(table);
})();
