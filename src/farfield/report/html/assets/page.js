"use strict";
// Everything from the audit goes in as text, never as markup.
const payload = JSON.parse(document.getElementById("payload").textContent);
const byId = (id) => document.getElementById(id);

function make(tag, attributes = {}, text = null) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== null) element.textContent = text;
  return element;
}

function draw(tag, attributes = {}, text = null) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== null) element.textContent = text;
  return element;
}

// Not a number is null, infinity a word.
function real(value) {
  if (value === null || value === undefined) return NaN;
  if (value === "inf") return Infinity;
  if (value === "-inf") return -Infinity;
  return value;
}

function percent(value) {
  if (!Number.isFinite(value)) return "not known";
  if (value > 0 && value < 1e-4) return "<0.01%";
  if (value > 0.9999 && value < 1) return ">99.99%";
  const fine = value < 0.01 || (value > 0.99 && value < 1);
  return `${Number((100 * value).toFixed(fine ? 2 : 1))}%`;
}

function number(value) {
  if (Number.isNaN(value)) return "not known";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const near = Number(value.toPrecision(3));
  const rounded = Number.isFinite(near) ? near : value; // the very largest would round to infinity
  const size = Math.abs(rounded);
  let text;
  if (size !== 0 && (size >= 1e9 || size < 1e-4)) text = rounded.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
  else if (size >= 1000) text = rounded.toLocaleString("en-US");
  else text = String(rounded);
  return text.replaceAll("-", "−");
}

function table(head, rows, caption) {
  const made = make("table");
  if (caption) made.append(make("caption", {}, caption));
  const top = make("tr");
  head.forEach((text, index) => {
    const cell = text === "" ? make("td") : make("th", { scope: "col" }, text);
    if (index) cell.className = "n";
    top.append(cell);
  });
  const thead = make("thead");
  thead.append(top);
  const body = make("tbody");
  for (const row of rows) {
    const line = make("tr");
    row.forEach((text, index) => {
      const cell = make(index ? "td" : "th", index ? { class: "n" } : { scope: "row" });
      cell.append(make("bdi", {}, text));
      line.append(cell);
    });
    body.append(line);
  }
  made.append(thead, body);
  return made;
}

function scrolling(content, label) {
  const box = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label });
  box.append(content);
  return box;
}

// A table that is made when somebody opens it, and again when what it shows has changed.
function lazy(details, build) {
  const fill = () => {
    if (!details.open) return;
    while (details.children.length > 1) details.lastChild.remove();
    details.append(build());
  };
  details.addEventListener("toggle", fill);
  return fill;
}

function choose(select, names) {
  const old = select.selectedOptions[0]?.textContent;
  select.replaceChildren(...names.map((name, index) => make("option", { value: index }, name)));
  const same = names.indexOf(old);
  select.value = String(Math.max(0, same));
}

(() => {
  const root = document.documentElement;
  const button = byId("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const name = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to the ${isDark() ? "light" : "dark"} theme`);
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("farfield-theme", root.dataset.theme);
    } catch {
      // Without storage the choice lasts as long as the page.
    }
    name();
  });
  system.addEventListener("change", name);
  name();

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open]):not(.lazy)")];
    for (const each of opened) each.open = true;
  });
  addEventListener("afterprint", () => {
    for (const each of opened) each.open = false;
  });

  // Say that a table goes on to the right where it does.
  const hint = (box) => {
    const wide = box.scrollWidth > box.clientWidth + 1;
    const before = box.previousElementSibling;
    const there = before !== null && before.classList.contains("sideways");
    if (wide && !there) box.before(make("p", { class: "sideways", "aria-hidden": "true" }, "Scroll sideways for more →"));
    if (!wide && there) before.remove();
  };
  const sizes = new ResizeObserver((entries) => {
    for (const entry of entries) hint(entry.target.closest(".scroll"));
  });
  for (const part of document.querySelectorAll(".scroll, .scroll > table")) sizes.observe(part);

  const links = new Map([...document.querySelectorAll(".contents a")].map((a) => [a.hash.slice(1), a]));
  const watcher = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        for (const link of links.values()) link.removeAttribute("aria-current");
        links.get(entry.target.id)?.setAttribute("aria-current", "true");
      }
    },
    { rootMargin: "-10% 0px -80% 0px" },
  );
  for (const id of links.keys()) if (byId(id)) watcher.observe(byId(id));
})();
