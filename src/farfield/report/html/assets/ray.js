// Scores along a ray, on a logarithmic axis through to infinity.
(() => {
  if (!payload.rays.length) return;
  const [which, kind, place, value, chart] = ["ray-which", "ray-score", "ray-place", "ray-value", "ray-chart"].map(byId);
  const SUPERSCRIPTS = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
  let ray, score, view, cursor;
  let paper = false;

  const power = (exponent) => (exponent >= -2 && exponent <= 4 ? (10 ** exponent).toLocaleString("en-US") : `10${[...String(exponent)].map((each) => SUPERSCRIPTS[each]).join("")}`);
  const written = (each) => (score.key ? percent(each) : number(each));
  const unit = () => ray.unit || "lengths of the direction";
  const most = () => (ray.bound ? "at most " : "");

  function layout() {
    const width = paper ? 640 : Math.max(280, chart.clientWidth);
    const height = width < 520 ? 270 : 350;
    const t = ray.t.map(real);
    const positive = t.filter((each) => each > 0 && Number.isFinite(each));
    const low = positive.length ? Math.min(...positive) : 0.1;
    const high = positive.length ? Math.max(...positive, low * 10) : 10;
    const box = { left: 54, right: width - 22, top: 54, bottom: height - 46 };
    // Zero stands before, infinity behind the logarithmic part.
    const [start, end] = [box.left + 22, box.right - Math.min(70, 0.12 * width)];
    const scale = (end - start) / Math.log(high / low);
    const x = (each) => (each <= 0 ? box.left : each === Infinity ? box.right : start + scale * Math.log(Math.min(Math.max(each, low), high) / low));
    return { width, height, box, t, low, high, start, end, x, y: heights(box) };
  }

  function heights(box) {
    let [low, high] = [0, 1];
    if (!score.key) {
      const finite = [...score.values, score.limit].map(real).filter(Number.isFinite);
      [low, high] = finite.length ? [Math.min(...finite), Math.max(...finite)] : [0, 1];
      if (low === high) [low, high] = [low - 0.5, high + 0.5];
      if (low > 0 && low < 0.3 * high) low = 0;
    }
    const step = score.key ? 0.25 : nice((high - low) / 4);
    if (!score.key) [low, high] = [Math.floor(low / step + 1e-9) * step, Math.ceil(high / step - 1e-9) * step];
    const marks = [];
    for (let mark = Math.ceil(low / step - 1e-9); mark * step <= high + step * 1e-6 && marks.length < 12; mark += 1) marks.push(mark * step);
    const y = (each) => (each === Infinity ? box.top : each === -Infinity ? box.bottom : box.bottom - ((each - low) / (high - low)) * (box.bottom - box.top));
    y.marks = marks;
    return y;
  }

  function nice(step) {
    const size = 10 ** Math.floor(Math.log10(step));
    return [1, 2, 2.5, 5, 10].find((each) => each * size >= step * 0.999) * size;
  }

  function line(t, values) {
    let [path, pen] = ["", "M"];
    t.forEach((each, index) => {
      const height = real(values[index]);
      if (!Number.isFinite(each) || !Number.isFinite(height)) pen = "M";
      else {
        path += `${pen}${view.x(each).toFixed(1)} ${view.y(height).toFixed(1)}`;
        pen = "L";
      }
    });
    return path;
  }

  function axes(svg) {
    const { box } = view;
    for (const mark of view.y.marks) {
      svg.append(draw("line", { class: "rule", x1: box.left, x2: box.right, y1: view.y(mark), y2: view.y(mark) }));
      svg.append(draw("text", { x: box.left - 7, y: view.y(mark) + 4, "text-anchor": "end" }, written(mark)));
    }
    const [first, last] = [Math.ceil(Math.log10(view.low) - 1e-9), Math.floor(Math.log10(view.high) + 1e-9)];
    const step = Math.max(1, Math.ceil(((last - first + 1) * 50) / (view.end - view.start)));
    for (let exponent = first; exponent <= last; exponent += step) {
      const x = view.x(10 ** exponent);
      svg.append(draw("line", { class: "rule", x1: x, x2: x, y1: box.bottom, y2: box.bottom + 5 }));
      if (x - box.left > 26) svg.append(draw("text", { x, y: box.bottom + 18, "text-anchor": "middle" }, power(exponent)));
    }
    svg.append(draw("text", { x: box.left, y: box.bottom + 18, "text-anchor": "middle" }, "0"));
    svg.append(draw("text", { class: payload.farEnd[0] === "∞" ? "infinity" : "", x: box.right, y: box.bottom + 21, "text-anchor": "middle" }, payload.farEnd[0]));
    svg.append(draw("line", { class: "edge", x1: box.right, x2: box.right, y1: box.top, y2: box.bottom }));
    svg.append(draw("text", { x: (view.start + view.end) / 2, y: box.bottom + 38, "text-anchor": "middle" }, `distance, in ${unit().length > 44 ? `${unit().slice(0, 43)}…` : unit()}`));
  }

  function mark(svg, at, text, row) {
    if (!Number.isFinite(at) || at <= 0) return;
    const x = view.x(at);
    const late = x > (view.box.left + view.box.right) / 2;
    svg.append(draw("line", { class: "mark", x1: x, x2: x, y1: 14 + 14 * row, y2: view.box.bottom }));
    svg.append(draw("text", { class: "told", x: x + (late ? -5 : 5), y: 14 + 14 * row, "text-anchor": late ? "end" : "start" }, text));
  }

  function render() {
    view = layout();
    const svg = draw("svg", { viewBox: `0 0 ${view.width} ${view.height}`, width: view.width, height: view.height, role: "img", "aria-label": summary() });
    axes(svg);
    if (score.key) {
      mark(svg, real(ray.first), `first 99.9%: ${number(real(ray.first))}`, 0);
      const line = real(payload.threshold);
      if (line > 0 && line <= 1) svg.append(draw("line", { class: "limit", x1: view.box.left, x2: view.box.right, y1: view.y(line), y2: view.y(line) }));
    }
    if (score.key) mark(svg, real(ray.settled), `99.9% for good: ${most()}${number(real(ray.settled))}`, 1);
    mark(svg, real(ray.reach), `last switch: ${number(real(ray.reach))}`, 2);
    for (const other of payload.rays) {
      const same = other !== ray && other.unit === ray.unit && other.scores.find((each) => each.name === score.name);
      if (same && score.key) svg.append(draw("path", { class: "others", d: line(other.t.map(real), same.values) }));
    }
    svg.append(draw("path", { class: "curve", d: line(view.t, score.values) }));
    const limit = real(score.limit);
    if (!Number.isNaN(limit)) {
      const last = view.t.reduce((found, each, index) => (Number.isFinite(each) && Number.isFinite(real(score.values[index])) ? index : found), -1);
      const [y, x] = [view.y(limit), view.box.right];
      if (last >= 0) svg.append(draw("path", { class: "beyond", d: `M${view.x(view.t[last])} ${view.y(real(score.values[last]))}L${x} ${y}` }));
      svg.append(draw("circle", { class: "end", cx: x, cy: y, r: 5 }));
    }
    cursor = { line: draw("line", { class: "cursor", y1: view.box.top, y2: view.box.bottom }), dot: draw("circle", { class: "dot", r: 5 }), tip: draw("g", { class: "tip" }) };
    svg.append(cursor.line, cursor.dot, cursor.tip);
    svg.addEventListener("pointermove", (event) => nearest(event.clientX - svg.getBoundingClientRect().left));
    svg.addEventListener("pointerdown", (event) => nearest(event.clientX - svg.getBoundingClientRect().left));
    chart.replaceChildren(svg);
    byId("ray-caption").textContent = summary();
    show();
  }

  function summary() {
    const first = real(ray.first);
    const told = [`${score.name} along “${ray.name}”: ${written(real(score.values[0]))} at the start, ${written(real(score.limit))} ${payload.farEnd[1]}.`];
    if (score.key && ray.first !== null) told.push(first === Infinity ? "It never reaches 99.9%." : `It first reaches 99.9% at ${number(first)}.`);
    if (score.key && ray.settled !== null && first !== Infinity) told.push(real(ray.settled) === Infinity ? `It is not ${ray.first === null ? "99.9%" : "there"} ${payload.farEnd[1]}.` : `It is ${ray.first === null ? "99.9%" : "there"} for good from ${most()}${number(real(ray.settled))} on.`);
    if (score.key && ray.final !== null && Number.isFinite(real(ray.final))) told.push(`The class is final from ${most()}${number(real(ray.final))} on.`);
    if (score.key && payload.rays.length > 1) told.push("Thin lines are the other rays; the dashed line is the confidence that counts as blind.");
    return told.join(" ");
  }

  function nearest(x) {
    let best = view.t.length;
    for (let index = 0; index < view.t.length; index += 1) {
      if (Number.isFinite(view.t[index]) && Math.abs(view.x(view.t[index]) - x) < Math.abs((best < view.t.length ? view.x(view.t[best]) : view.box.right) - x)) best = index;
    }
    place.value = String(best);
    show();
  }

  function show() {
    const index = Number(place.value);
    const far = index >= view.t.length;
    const [at, height] = far ? [Infinity, real(score.limit)] : [view.t[index], real(score.values[index])];
    const where = far ? payload.farEnd[1].replace("a", "A") : `At ${number(at)} ${unit()}`;
    value.textContent = `${where}: ${score.name.toLowerCase()} ${written(height)}`;
    place.setAttribute("aria-valuetext", value.textContent);
    const known = !Number.isNaN(height) && !Number.isNaN(at);
    for (const each of Object.values(cursor)) each.setAttribute("visibility", known ? "visible" : "hidden");
    if (!known) return;
    const [x, y] = [view.x(at), view.y(height)];
    cursor.line.setAttribute("x1", x);
    cursor.line.setAttribute("x2", x);
    cursor.dot.setAttribute("cx", x);
    cursor.dot.setAttribute("cy", y);
    tip(x, y, `${far ? payload.farEnd[0] : number(at)}: ${written(height)}`);
  }

  function tip(x, y, text) {
    const label = draw("text", { "text-anchor": "start" }, text);
    const back = draw("rect", { rx: 3 });
    cursor.tip.replaceChildren(back, label);
    const width = label.getComputedTextLength() + 14;
    const left = x + 12 + width > view.width ? x - 12 - width : x + 12;
    const top = Math.max(view.box.top + 2, Math.min(y + 12, view.box.bottom - 26));
    for (const [name, each] of Object.entries({ x: left, y: top, width, height: 22 })) back.setAttribute(name, each);
    label.setAttribute("x", left + 7);
    label.setAttribute("y", top + 15.5);
  }

  function pick() {
    score = ray.scores[Number(kind.value)];
    render();
    refresh();
  }

  const details = byId("ray-table");
  details.classList.add("lazy");
  const refresh = lazy(details, () => {
    const rows = view.t.map((each, index) => [number(each), ...ray.scores.map((one) => number(real(one.values[index])))]);
    rows.push(["∞", ...ray.scores.map((one) => number(real(one.limit)))]);
    return scrolling(table([`Distance (${unit()})`, ...ray.scores.map((one) => one.name)], rows, ray.name), "Values of this ray");
  });

  which.addEventListener("change", () => {
    ray = payload.rays[Number(which.value)];
    choose(kind, ray.scores.map((each) => each.name));
    place.max = String(ray.t.length);
    place.value = String(Math.min(Number(place.value), ray.t.length));
    pick();
  });
  kind.addEventListener("change", pick);
  place.addEventListener("input", show);
  choose(which, payload.rays.map((each) => each.name));
  byId("ray").hidden = false;
  place.max = "100000";
  place.value = "100000";
  which.dispatchEvent(new Event("change"));
  // Drawn anew for paper, where the letters of a wide drawing would come out small.
  for (const [event, printed] of [["beforeprint", true], ["afterprint", false]]) {
    addEventListener(event, () => {
      paper = printed;
      render();
    });
  }
  let width = chart.clientWidth;
  new ResizeObserver(() => {
    if (paper || chart.clientWidth === width) return;
    width = chart.clientWidth;
    render();
  }).observe(chart);
})();
