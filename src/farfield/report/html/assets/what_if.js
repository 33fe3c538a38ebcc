// One row, a slider for every column, and the curve of confidence along it.
(() => {
  const given = payload.whatIf;
  if (!given || !given.rows.length || !given.columns.length) return;
  const [which, reset, now, cards] = ["what-if-row", "what-if-reset", "what-if-now", "what-if-columns"].map(byId);
  const [WIDTH, HEIGHT] = [300, 118];
  const box = { left: 9, right: WIDTH - 9, top: 10, bottom: HEIGHT - 20 };
  const floor = 1 / Math.max(2, payload.classes.length);
  let row;
  let moved = null;

  const hue = (label) => `s${((label % 8) + 8) % 8}`;
  const classed = (label) => payload.classes[label] ?? `class ${label + 1}`;
  const y = (each) => box.bottom - ((each - floor) / (1 - floor)) * (box.bottom - box.top);
  const across = (index, count) => box.left + (index / Math.max(1, count - 1)) * (box.right - box.left);

  function written(column, index) {
    if (column.options.length) return column.options[index];
    const value = real(column.values[index]);
    const far = Number.isFinite(value) ? number(value) : value > 0 ? payload.farEnd[0] : payload.farEnd[0].replace("∞", "−∞");
    return `${far} ${Number.isFinite(value) ? column.unit : ""}`.trim();
  }

  function own(column, at) {
    const mine = real(row.values[at]);
    let best = 0;
    column.values.forEach((each, index) => {
      if (Math.abs(real(each) - mine) < Math.abs(real(column.values[best]) - mine) || !Number.isFinite(real(column.values[best]))) best = index;
    });
    return best;
  }

  function line(values) {
    return values.map((each, index) => (Number.isFinite(real(each)) ? `${across(index, values.length).toFixed(1)} ${y(real(each)).toFixed(1)}` : null)).filter(Boolean).map((each, index) => `${index ? "L" : "M"}${each}`).join("");
  }

  // The share of the axis that a value takes, between the two places around it.
  function place(column, value) {
    const values = column.values.map(real);
    const right = values.findIndex((each) => each >= value);
    if (right <= 0) return right === 0 ? 0 : values.length - 1;
    const [low, high] = [values[right - 1], values[right]];
    return Number.isFinite(low) && Number.isFinite(high) && high > low ? right - 1 + (value - low) / (high - low) : right;
  }

  // Between the values of a category there is nothing: each has a spot of its own, and the guard a stroke.
  function spots(curve, count) {
    return curve.confidence.flatMap((each, index) => {
      const [x, sure, safe] = [across(index, count), real(each), real(curve.guarded[index])];
      const found = Number.isFinite(sure) ? [draw("circle", { class: `spot ${hue(curve.label[index])}`, cx: x, cy: y(sure), r: 3.5 })] : [];
      if (Number.isFinite(safe)) found.push(draw("path", { class: "guarded", d: `M${x - 8} ${y(safe)}h16` }));
      return found;
    });
  }

  function curves(curve, count) {
    const found = [];
    // Where the class changes, the curve changes its colour.
    let first = 0;
    for (let index = 1; index <= count; index += 1) {
      if (index < count && curve.label[index] === curve.label[first]) continue;
      const part = curve.confidence.map((each, here) => (here >= first && here <= Math.min(index, count - 1) ? each : null));
      found.push(draw("path", { class: `sure ${hue(curve.label[first])}`, d: line(part) }));
      const alone = real(curve.confidence[first]);
      if (index - first === 1 && Number.isFinite(alone)) found.push(draw("circle", { class: `spot ${hue(curve.label[first])}`, cx: across(first, count), cy: y(alone), r: 2 }));
      first = index;
    }
    if (curve.guarded.length) found.push(draw("path", { class: "guarded", d: line(curve.guarded) }));
    return found;
  }

  function card(column, at) {
    const curve = row.curves[at];
    const count = column.values.length;
    const holder = make("div", { class: "card what-if" });
    const title = make("h3");
    title.append(make("bdi", {}, column.name));
    if (column.unit) title.append(make("small", {}, column.unit));
    const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "along", role: "img", "aria-label": `Confidence along ${column.name}` });
    if (!column.options.length) {
      const [low, high] = column.data.map((each) => across(place(column, real(each)), count));
      svg.append(draw("rect", { class: "band", x: low, y: box.top, width: Math.max(1, high - low), height: box.bottom - box.top }));
    }
    for (const mark of [floor, 1]) svg.append(draw("line", { class: "rule", x1: box.left, x2: box.right, y1: y(mark), y2: y(mark) }));
    svg.append(...(column.options.length ? spots : curves)(curve, count));
    const cursor = draw("line", { class: "cursor", y1: box.top - 4, y2: box.bottom });
    const dot = draw("circle", { class: "dot", r: 4 });
    svg.append(cursor, dot);
    for (const [x, anchor, index] of [[box.left, "start", 0], [box.right, "end", count - 1]]) svg.append(draw("text", { x, y: HEIGHT - 5, "text-anchor": anchor }, written(column, index)));
    const slider = make("input", { type: "range", min: 0, max: count - 1, step: 1, "aria-label": `${column.name}, to be moved` });
    const said = make("output");
    holder.append(title, svg, slider, said);
    const start = own(column, at);

    function show() {
      const index = Number(slider.value);
      const [x, sure] = [across(index, count), real(curve.confidence[index])];
      cursor.setAttribute("x1", x);
      cursor.setAttribute("x2", x);
      dot.setAttribute("cx", x);
      dot.setAttribute("cy", y(Number.isFinite(sure) ? sure : floor));
      const guard = curve.guarded.length ? `; with the guard ${percent(real(curve.guarded[index]))}` : "";
      said.textContent = `${written(column, index)}: ${classed(curve.label[index])}, ${percent(sure)}${guard}`;
      slider.setAttribute("aria-valuetext", said.textContent);
      holder.classList.toggle("flipped", curve.label[index] !== curve.label[start]);
      return `${column.name} ${said.textContent}`;
    }

    slider.value = String(start);
    slider.addEventListener("input", () => {
      // Only one column is away from the row at a time.
      if (moved && moved !== back) moved();
      moved = back;
      now.textContent = show();
    });
    function back() {
      slider.value = String(start);
      show();
    }
    svg.addEventListener("pointerdown", (event) => {
      const size = svg.getBoundingClientRect();
      const share = (((event.clientX - size.left) / size.width) * WIDTH - box.left) / (box.right - box.left);
      slider.value = String(Math.round(Math.min(1, Math.max(0, share)) * (count - 1)));
      slider.dispatchEvent(new Event("input"));
    });
    show();
    return holder;
  }

  function told() {
    const [curve, column] = [row.curves[0], given.columns[0]];
    const index = own(column, 0);
    const guard = curve.guarded.length ? `; with the guard ${percent(real(curve.guarded[index]))}` : "";
    return `${row.title.slice(0, 1).toUpperCase()}${row.title.slice(1)}, as it is: ${classed(curve.label[index])}, ${percent(real(curve.confidence[index]))}${guard}`;
  }

  function render() {
    row = given.rows[Number(which.value)];
    moved = null;
    cards.replaceChildren(...given.columns.map(card));
    now.textContent = told();
  }

  choose(which, given.rows.map((each) => each.title));
  which.addEventListener("change", render);
  reset.addEventListener("click", render);
  byId("what-if").hidden = false;
  render();
})();
