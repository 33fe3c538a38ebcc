// Two features on a grid: a score or its gradient, regions, boundaries and the data on top.
(() => {
  if (!payload.surfaces.length) return;
  const canvas = byId("surface-canvas");
  const [which, kind, cross, value] = ["surface-which", "surface-layer", "surface-cross", "surface-value"].map(byId);
  const FINE = 4095;
  const PURPLES = ["#fcfbfd", "#efedf5", "#dadaeb", "#bcbddc", "#9e9ac8", "#807dba", "#6a51a3", "#54278f", "#3f007d"];
  const GREENS = ["#ffffe5", "#f7fcb9", "#d9f0a3", "#addd8e", "#78c679", "#41ab5d", "#238443", "#006837", "#004529"];
  const CLASSES = ["#d95f02", "#1b9e77", "#e6ab02", "#e7298a", "#66a61e", "#7570b3", "#a6761d", "#666666"];
  const SHAPES = ["circle", "square", "triangle", "diamond"];
  let surface, layer, bytes;
  let at = null;

  function ramp(stops) {
    const rgb = stops.map((each) => [1, 3, 5].map((from) => parseInt(each.slice(from, from + 2), 16)));
    return Array.from({ length: 256 }, (_, byte) => {
      const place = (byte / 255) * (rgb.length - 1);
      const low = Math.min(Math.floor(place), rgb.length - 2);
      return rgb[low].map((each, index) => Math.round(each + (place - low) * (rgb[low + 1][index] - each)));
    });
  }
  const ramps = [ramp(PURPLES), ramp(GREENS)];
  const colours = () => ramps[layer.gradient ? 1 : 0];
  function decoded(byte) {
    const [low, high] = layer.range.map(real);
    const value = low + (byte / 255) * (high - low);
    return Math.abs(value) < 1e-6 * (high - low) ? 0 : value;
  }

  function heat() {
    const [rows, columns] = surface.shape;
    const small = document.createElement("canvas");
    small.width = columns;
    small.height = rows;
    const context = small.getContext("2d");
    const image = context.createImageData(columns, rows);
    const map = colours();
    for (let row = 0; row < rows; row += 1) {
      for (let column = 0; column < columns; column += 1) {
        // Rows run from bottom to top, pixels from top to bottom.
        const to = 4 * ((rows - 1 - row) * columns + column);
        image.data.set(map[bytes[row * columns + column]], to);
        image.data[to + 3] = 255;
      }
    }
    context.putImageData(image, 0, 0);
    return small;
  }

  function segments(context, list, width, height, strokes) {
    const path = new Path2D();
    for (let index = 0; index + 3 < list.length; index += 4) {
      path.moveTo((list[index] / FINE) * width, (1 - list[index + 1] / FINE) * height);
      path.lineTo((list[index + 2] / FINE) * width, (1 - list[index + 3] / FINE) * height);
    }
    for (const [colour, thickness] of strokes) {
      context.strokeStyle = colour;
      context.lineWidth = thickness;
      context.stroke(path);
    }
  }

  function symbol(context, x, y, label, size) {
    context.beginPath();
    const shape = label < 0 ? "circle" : SHAPES[label % SHAPES.length];
    if (shape === "circle") context.arc(x, y, size, 0, 7);
    else if (shape === "square") context.rect(x - size * 0.9, y - size * 0.9, size * 1.8, size * 1.8);
    else if (shape === "triangle") {
      context.moveTo(x, y - size * 1.2);
      context.lineTo(x + size * 1.15, y + size * 0.9);
      context.lineTo(x - size * 1.15, y + size * 0.9);
      context.closePath();
    } else {
      context.moveTo(x, y - size * 1.3);
      context.lineTo(x + size * 1.2, y);
      context.lineTo(x, y + size * 1.3);
      context.lineTo(x - size * 1.2, y);
      context.closePath();
    }
    context.fillStyle = label < 0 ? "#555555" : CLASSES[label % CLASSES.length];
    context.fill();
    context.lineWidth = 1;
    context.strokeStyle = "#ffffff";
    context.stroke();
  }

  function render() {
    const width = canvas.clientWidth || 560;
    const height = canvas.clientHeight || 420;
    const dense = Math.max(2, window.devicePixelRatio || 1);
    canvas.width = Math.round(width * dense);
    canvas.height = Math.round(height * dense);
    const context = canvas.getContext("2d");
    context.scale(dense, dense);
    context.imageSmoothingQuality = "high";
    // The values are those at the corners and edges of the window, not at the centres of cells.
    const [down, across] = surface.shape.map((count) => Math.max(1, count - 1));
    context.drawImage(heat(), -width / across / 2, -height / down / 2, width + width / across, height + height / down);
    if (byId("surface-edges").checked) segments(context, surface.edges, width, height, [["rgb(255 255 255 / 45%)", 1.8], ["rgb(20 20 30 / 70%)", 0.8]]);
    if (byId("surface-boundaries").checked) segments(context, surface.boundaries, width, height, [["#ffffff", 4], ["#111111", 2]]);
    if (byId("surface-points").checked) {
      for (const [x, y, label] of surface.points) symbol(context, (x / FINE) * width, (1 - y / FINE) * height, label, width < 420 ? 3 : 3.6);
    }
    canvas.setAttribute("aria-label", summary());
    byId("surface-caption").textContent = summary();
    ticks();
    legend();
    show();
  }

  function ticks() {
    const [left, right, bottom, top] = surface.extent;
    const sides = [["surface-ticks-x", left, right, "left"], ["surface-ticks-y", bottom, top, "bottom"]];
    for (const [id, low, high, side] of sides) {
      const marks = [0, 0.25, 0.5, 0.75, 1].map((share) => {
        const mark = make("span", {}, number(low + share * (high - low)));
        mark.style[side] = `${100 * share}%`;
        return mark;
      });
      byId(id).replaceChildren(...marks);
    }
    byId("surface-x").textContent = surface.xUnit ? `${surface.x} (${surface.xUnit})` : surface.x;
    byId("surface-y").textContent = surface.yUnit ? `${surface.y} (${surface.yUnit})` : surface.y;
  }

  function legend() {
    const scale = byId("surface-scale");
    const context = scale.getContext("2d");
    const image = context.createImageData(256, 1);
    colours().forEach((colour, byte) => image.data.set([...colour, 255], 4 * byte));
    context.putImageData(image, 0, 0);
    byId("surface-name").textContent = layer.name;
    byId("surface-low").textContent = number(decoded(0));
    byId("surface-high").textContent = number(decoded(255));
    const labels = [...new Set(surface.points.map((each) => each[2]))].sort((a, b) => a - b).slice(0, 12);
    byId("surface-key").replaceChildren(
      ...labels.map((label) => {
        const item = make("li");
        const mark = make("canvas", { width: "28", height: "28", class: "symbol", "aria-hidden": "true" });
        symbol(mark.getContext("2d"), 14, 14, label, 8);
        item.append(mark, make("bdi", {}, label < 0 ? "data" : payload.classes[label] ?? `class ${label}`));
        return item;
      }),
    );
  }

  function summary() {
    const told = [`${layer.name} over “${surface.x}” and “${surface.y}”, all other features at the middle row: from ${number(decoded(0))} (pale) to ${number(decoded(255))} (dark).`];
    if (surface.regions !== null) told.push(`The window holds ${surface.regions.toLocaleString("en-US")} linear regions.`);
    if (4 * surface.allEdges > surface.edges.length) told.push(`The ${(surface.edges.length / 4).toLocaleString("en-US")} longest of ${surface.allEdges.toLocaleString("en-US")} edges are drawn.`);
    return told.join(" ");
  }

  const share = (index, count) => (count > 1 ? index / (count - 1) : 0.5);
  const centre = (index, count, low, high) => low + share(index, count) * (high - low);

  function show() {
    cross.hidden = at === null;
    value.classList.toggle("hint", at === null);
    if (at === null) {
      value.textContent = "Point at the picture, or focus it and use the arrow keys, to read values.";
      return;
    }
    const [rows, columns] = surface.shape;
    const [row, column] = [Math.min(at[0], rows - 1), Math.min(at[1], columns - 1)];
    const [left, right, bottom, top] = surface.extent;
    cross.style.left = `${100 * share(column, columns)}%`;
    cross.style.bottom = `${100 * share(row, rows)}%`;
    value.textContent = `${surface.x} ${number(centre(column, columns, left, right))}, ${surface.y} ${number(centre(row, rows, bottom, top))}: ${layer.name.toLowerCase()} ${number(decoded(bytes[row * columns + column]))}`;
  }

  function point(event) {
    const box = canvas.getBoundingClientRect();
    const [rows, columns] = surface.shape;
    const [x, y] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
    const inside = (part, count) => Math.min(count - 1, Math.max(0, Math.round(part * (count - 1))));
    at = [inside(1 - y, rows), inside(x, columns)];
    show();
  }

  function pick() {
    layer = surface.layers[Number(kind.value)];
    bytes = Uint8Array.from(atob(layer.grid), (letter) => letter.charCodeAt(0));
    render();
    refresh();
  }

  const details = byId("surface-table");
  details.classList.add("lazy");
  const refresh = lazy(details, () => {
    const [rows, columns] = surface.shape;
    const spread = (count) => [...new Set(Array.from({ length: 9 }, (_, index) => Math.round((index * (count - 1)) / 8)))];
    const [left, right, bottom, top] = surface.extent;
    const across = spread(columns);
    const lines = spread(rows).reverse().map((row) => [number(centre(row, rows, bottom, top)), ...across.map((column) => number(decoded(bytes[row * columns + column])))]);
    const head = [`${surface.y} \\ ${surface.x}`, ...across.map((column) => number(centre(column, columns, left, right)))];
    return scrolling(table(head, lines, layer.name), "Values of this surface");
  });

  which.addEventListener("change", () => {
    surface = payload.surfaces[Number(which.value)];
    choose(kind, surface.layers.map((each) => each.name));
    at = null;
    for (const each of ["points", "boundaries", "edges"]) byId(`surface-${each}`).closest("label").hidden = !surface[each].length;
    pick();
  });
  kind.addEventListener("change", pick);
  for (const id of ["surface-points", "surface-boundaries", "surface-edges"]) byId(id).addEventListener("change", render);
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("pointerdown", point);
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    const [rows, columns] = surface.shape;
    const now = at ?? [Math.floor(rows / 2), Math.floor(columns / 2)];
    at = [Math.min(rows - 1, Math.max(0, now[0] + step[0])), Math.min(columns - 1, Math.max(0, now[1] + step[1]))];
    show();
  });
  choose(which, payload.surfaces.map((each) => `${each.x} and ${each.y}`));
  byId("surface").hidden = false;
  which.dispatchEvent(new Event("change"));
  let width = canvas.clientWidth;
  new ResizeObserver(() => {
    if (canvas.clientWidth === width) return;
    width = canvas.clientWidth;
    render();
  }).observe(canvas);
})();
