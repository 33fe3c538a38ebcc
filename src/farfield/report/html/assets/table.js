// Sorting for every table, searching and paging for the table of features.
(() => {
  const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

  function compare(key, sign) {
    return (a, b) => {
      const [p, q] = [a.dataset[key], b.dataset[key]];
      const [gone, lost] = [missing(p), missing(q)];
      if (gone || lost) return gone - lost;
      const [x, y] = [value(p), value(q)];
      if (typeof x === "number" && typeof y === "number") return x === y ? 0 : sign * (x < y ? -1 : 1);
      return sign * collator.compare(p, q);
    };
  }

  const missing = (text) => text === undefined || text === "" || text === "nan";

  function value(text) {
    if (text === "inf") return Infinity;
    if (text === "-inf") return -Infinity;
    const parsed = Number(text);
    return Number.isNaN(parsed) ? text : parsed;
  }

  function sortable(element, arranged) {
    const body = element.tBodies[0];
    for (const button of element.querySelectorAll("button.sort")) {
      const heading = button.closest("th");
      heading.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const up = heading.getAttribute("aria-sort") !== "ascending";
        for (const each of element.querySelectorAll("th[aria-sort]")) each.setAttribute("aria-sort", "none");
        heading.setAttribute("aria-sort", up ? "ascending" : "descending");
        const key = button.dataset.key.replace(/-(\w)/g, (_, letter) => letter.toUpperCase());
        const rows = [...body.rows].filter((row) => !row.classList.contains("detail"));
        rows.sort(compare(key, up ? 1 : -1));
        body.append(...rows.flatMap((row) => (row.detail ? [row, row.detail] : [row])));
        byId("live").textContent = `Sorted by ${button.textContent}, ${up ? "smallest" : "largest"} first`;
        arranged?.();
      });
    }
  }

  const features = byId("feature-table");
  for (const each of document.querySelectorAll("table.sortable")) if (each !== features) sortable(each);
  if (!features) return;

  const PAGE = 50;
  const body = features.tBodies[0];
  const search = byId("feature-search");
  const total = body.rows.length;
  const paged = features.classList.contains("paged");
  let page = 0;
  let all = !paged;

  function arrange() {
    const wanted = search.value.trim().toLowerCase();
    const rows = [...body.rows].filter((row) => !row.classList.contains("detail"));
    const found = rows.filter((row) => row.dataset.name.toLowerCase().includes(wanted));
    const pages = Math.max(1, Math.ceil(found.length / PAGE));
    page = Math.min(page, pages - 1);
    const shown = new Set(all ? found : found.slice(page * PAGE, (page + 1) * PAGE));
    for (const row of rows) {
      row.hidden = !shown.has(row);
      if (row.detail) row.detail.hidden = row.hidden || row.querySelector(".open").getAttribute("aria-expanded") !== "true";
    }
    features.classList.remove("paged");
    const first = all ? 1 : page * PAGE + 1;
    byId("feature-count").textContent = shown.size === 0 ? "No feature has that name" : `Rows ${first} to ${first + shown.size - 1} of ${found.length}${wanted ? ` found, ${total} in all` : ""}`;
    byId("feature-pages").hidden = !paged;
    byId("page-back").disabled = all || page === 0;
    byId("page-on").disabled = all || page >= pages - 1;
    byId("page-all").textContent = all ? "Show pages" : "Show all";
  }

  function toggle(button) {
    const row = button.closest("tr");
    const opening = button.getAttribute("aria-expanded") !== "true";
    if (!row.detail) {
      row.detail = detail(row);
      row.after(row.detail);
    }
    button.setAttribute("aria-expanded", String(opening));
    row.detail.hidden = !opening;
  }

  function detail(row) {
    const told = payload.features[row.dataset.row];
    const made = make("tr", { class: "detail" });
    const cell = make("td", { colspan: "11" });
    if (told.rows.length) cell.append(table(told.head, told.rows));
    else cell.append(make("p", {}, "Nothing more is known about it."));
    if (told.note) cell.append(make("p", { class: "muted" }, told.note));
    made.append(cell);
    return made;
  }

  sortable(features, () => {
    page = 0;
    arrange();
  });
  body.addEventListener("click", (event) => {
    const button = event.target.closest("button.open");
    if (button) toggle(button);
  });
  search.addEventListener("input", () => {
    page = 0;
    arrange();
  });
  const turn = (id, change) =>
    byId(id).addEventListener("click", () => {
      change();
      arrange();
    });
  turn("page-back", () => (page -= 1));
  turn("page-on", () => (page += 1));
  turn("page-all", () => (all = !all));
  // On paper nobody can press a name: the values of categorical features are opened.
  addEventListener("beforeprint", () => {
    for (const row of [...body.rows]) {
      const button = row.querySelector("button.open");
      const values = row.dataset.kind === "categorical";
      if (button && values && !row.hidden && button.getAttribute("aria-expanded") !== "true") toggle(button);
    }
  });
  byId("feature-tools").hidden = false;
  arrange();
})();
