// Without it everything can be read; with it filtered, sorted, copied, linked to and enlarged.
"use strict";
(() => {
const SVG = "http://www.w3.org/2000/svg";
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

/** Gives an element attributes and children; text is never markup. */
function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(key, value);
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

const make = (name, attributes = {}, ...children) =>
  fill(document.createElement(name), attributes, children);
const svgElement = (name, attributes, ...children) =>
  fill(document.createElementNS(SVG, name), attributes, children);

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

const button = (label, name, click) =>
  make("button", { type: "button", "aria-label": name, title: name, click }, label);

const said = make("output", { class: "unseen", "aria-live": "polite" });
document.body.append(said);

// Tables.

const tables = all("table.cells").map((table) => ({
  table,
  heads: all("thead th", table),
  bodies: [...table.tBodies].map((body) => {
    const title = body.querySelector(".group");
    const rows = [...body.rows].filter((row) => row !== title);
    // A sorted row says itself what it is of.
    const name = title && textOf(title.querySelector(".title"));
    if (title) for (const row of rows) row.cells[0].dataset.title = name;
    return { body, title, rows };
  }),
}));

/** What an entry says, without what is added to it. */
function textOf(cell, withNote = true) {
  const copy = cell.cloneNode(true);
  all(".link,.tool", copy).forEach((one) => one.remove());
  const note = copy.querySelector(".note");
  note?.remove();
  all("br", copy).forEach((one) => one.replaceWith(" "));
  const plain = (text) => text.replace(/\s+/g, " ").trim();
  // A mark's sign says by shape what the word behind it says, too.
  const text = plain(copy.textContent).replace(/^[✓✗=?] /u, "");
  return note && withNote ? `${text} (${plain(note.textContent)})` : text;
}

const names = new WeakMap();
function nameIn(cell) {
  if (!names.has(cell)) names.set(cell, `${cell.dataset.title} ${textOf(cell, false)}`);
  return names.get(cell);
}

/** A name that the visible row above has too is not shown again. */
function markRepeated({ bodies, heads }) {
  const other = heads.findIndex((head) => !head.classList.contains("name"));
  const columns = other < 0 ? heads.length : other;
  for (const { body } of bodies) {
    let above = null;
    for (const row of body.rows) {
      if (row.matches(".group,[hidden]")) continue;
      let same = above !== null;
      for (let column = 0; column < columns; column++) {
        const cell = row.cells[column];
        if (!cell) break;
        same = same && nameIn(cell) === nameIn(above.cells[column]);
        cell.classList.toggle("again", same);
      }
      above = row;
    }
  }
}

const SIZES = {
  KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40,
  ns: 1e-9, "µs": 1e-6, ms: 1e-3, min: 60, h: 3600,
};

/** The first number of an entry and its unit, both in base units; `null` where there is none. */
function quantityOf(text) {
  const found = /(× )?([-+−]?)(\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?)\s*([^\s\d]*)/.exec(text);
  if (!found) return null;
  const [whole, times, sign, digits, unit] = found;
  let value = Number(digits.replaceAll(",", "")) * (SIZES[unit] ?? 1);
  if (times) value = (value - 1) * 100;
  if (sign && sign !== "+") value = -value;
  const base = unit in SIZES ? (unit.endsWith("B") ? "B" : "s") : unit;
  return { value, unit: times ? "%" : base, isAll: whole === text };
}

const words = new Intl.Collator("en", { numeric: true });

/** Sorts the rows of all bodies; `direction` is `none`, `ascending` or `descending`. */
function sort(of, column, direction) {
  const isNumber = of.heads[column].classList.contains("number");
  const key = (row) => {
    const text = textOf(row.cells[column], false);
    return isNumber ? (quantityOf(text)?.value ?? null) : text === "–" ? null : text;
  };
  const sign = { ascending: 1, descending: -1 }[direction];
  const keyed = of.bodies.flatMap(({ body, rows }) => rows.map((row) => [row, key(row), body]));
  if (sign) {
    keyed.sort(([, a], [, b]) => {
      // What is unknown stands last, whichever way.
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (isNumber ? a - b : words.compare(a, b));
    });
  }
  const first = sign && of.bodies[0].body;
  for (const [row, , body] of keyed) (first || body).append(row);
  of.table.classList.toggle("sorted", Boolean(sign));
  for (const head of of.heads) head.removeAttribute("aria-sort");
  if (sign) of.heads[column].setAttribute("aria-sort", direction);
  markRepeated(of);
}

function makeSortable(of) {
  if (of.bodies.flatMap(({ rows }) => rows).length < 2) return;
  of.heads.forEach((head, column) => {
    const next = { none: "ascending", ascending: "descending", descending: "none" };
    const click = () => sort(of, column, next[head.getAttribute("aria-sort") ?? "none"]);
    head.append(make("button", { type: "button", class: "sort", click }, ...head.childNodes));
  });
}

/** One tab stop for the controls of some elements; arrows lead to the others. */
function rove(...groups) {
  const stops = groups.flatMap((group) => all("a,button,input,summary", group));
  const keep = (kept) => stops.forEach((stop) => { stop.tabIndex = stop === kept ? 0 : -1; });
  const keydown = (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const shown = stops.filter((stop) => stop.checkVisibility());
    (shown.at(shown.indexOf(event.target) + step) ?? shown[0]).focus();
  };
  // Others may be filtered out.
  const focusout = () => keep(stops[0]);
  for (const group of groups) {
    fill(group, { keydown, focusout, focusin: ({ target }) => keep(target) }, []);
  }
  focusout();
  groups[0].title = "Arrow keys move between controls";
}

// Copies.

/** Head and visible rows as texts, with the titles of the bodies in a column of their own. */
function matrix({ table, heads, bodies }) {
  const head = table.dataset.titleHead;
  const line = (title, cells) =>
    [...(head ? [title] : []), ...[...cells].map((cell) => textOf(cell))];
  const rows = bodies.flatMap(({ body }) => [...body.rows]);
  const shown = rows.filter((row) => !row.matches(".group,[hidden]"));
  return [line(head, heads), ...shown.map((row) => line(row.cells[0].dataset.title ?? "", row.cells))];
}

/** Numbers in the unit that their head names; in a second column what else is said. */
function inBaseUnits([head, ...texts]) {
  const parts = texts.map((text) => /^(.*?)(?: \((.*)\))?$/.exec(text));
  const found = parts.map(([, text]) => quantityOf(text));
  const first = found.find((one) => one?.isAll);
  if (!first) return [[head, ...texts]];
  const { unit } = first;
  const isOne = found.map((one) => one?.isAll && one.unit === unit);
  const values = found.map((one, at) => (isOne[at] ? `${+one.value.toPrecision(9)}` : ""));
  const notes = parts.map(([all, , note], at) => (isOne[at] ? note ?? "" : all.replace("–", "")));
  const column = [unit && unit !== head ? `${head} (${unit})` : head, ...values];
  return notes.some(Boolean) ? [column, [`${head}: note`, ...notes]] : [column];
}

/** As RFC 4180 has it. What a spreadsheet would take for a formula is text. */
function csv(rows, { heads }) {
  const entry = (text) => {
    const isFormula = /^[=+\-@]/.test(text) && !/^[-+][\d.]/.test(text);
    const safe = isFormula ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const columns = rows[0].flatMap((_, place) => {
    const column = rows.map((row) => row[place]);
    const head = heads.at(place - rows[0].length);
    return head?.classList.contains("number") ? inBaseUnits(column) : [column];
  });
  return rows.map((_, at) => `${columns.map((one) => entry(one[at])).join(",")}\r\n`).join("");
}

/** A text that means itself in Markdown, as in `report.md`. */
function escaped(text) {
  const named = { "<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "&#64;", "#": "&#35;" };
  return text
    .replace(/[<>&@#]/g, (letter) => named[letter])
    .replace(/[\\`*[\]|~!]|(?<![\p{L}\p{N}])_|_(?![\p{L}\p{N}])/gu, (letter) => `\\${letter}`);
}

function markdown(rows, { table, heads }) {
  const rules = heads.map((head) => (head.classList.contains("number") ? "---:" : "---"));
  if (table.dataset.titleHead) rules.unshift("---");
  const line = (row) => `| ${row.map(escaped).join(" | ")} |\n`;
  return `${line(rows[0])}|${rules.join("|")}|\n${rows.slice(1).map(line).join("")}`;
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    said.textContent = `${what} copied`;
  } catch {
    said.textContent = `${what} not copied: the browser forbids it`;
  }
}

function addCopies(of) {
  const tools = make("p", { class: "tools" });
  const named = of.table.caption?.textContent.split(". ")[0] ?? "Table";
  const offer = (label, write) =>
    tools.append(button(label, `${label}: ${named}`, () => copy(write(matrix(of), of), "Table")));
  offer("Copy as CSV", csv);
  offer("Copy as Markdown", markdown);
  of.table.closest(".scroll").before(tools);
}

/** Beside the link to a cell a button for the command that runs it again. */
function addCommands() {
  const links = all("tr[id] .link");
  all(".commands li").forEach((command, place) => {
    const named = textOf(links[place].closest("th"), false);
    const click = () => copy(command.textContent, "Command");
    const tool = button("$", `Copy the command that runs ${named} again`, click);
    tool.className = "tool";
    links[place].after(tool);
  });
}

// Filters. The address says them: `#model=resnet50&precision=fp32&hide=unchanged`.

const facts = new Map();
for (const row of all("[data-facts]")) {
  facts.set(row, new URLSearchParams(row.dataset.facts.replaceAll(";", "&")));
}
const results = [...facts.keys()].filter((row) => row.id);

const put = (map, name, value) => map.set(name, (map.get(name) ?? new Set()).add(value));

/** The facts of all cells that `is` holds for, as a map from name to values. */
function factsOf(is) {
  const found = new Map();
  for (const row of results.filter(is)) {
    for (const [name, value] of facts.get(row)) put(found, name, value);
  }
  return found;
}

const everything = factsOf(() => true);
for (const name of ["verdict", "claim"]) {
  const values = [...facts.values()].flatMap((of) => of.getAll(name));
  if (values.length) everything.set(name, new Set(values));
}
const facets = [...everything].filter(([, values]) => values.size > 1);
const filtered = new Map();
const joined = new Map();

/** What a row says of a fact: itself, or the cells that it is about, or their scenario. */
function valuesOf(row, name) {
  const own = facts.get(row)?.getAll(name) ?? [];
  if (own.length || row.id || name === "verdict") return own;
  const scenario = facts.get(row)?.get("scenario");
  const key = `${row.dataset.cell}\n${scenario}`;
  if (!joined.has(key)) {
    let found = factsOf((other) => other.dataset.cell === row.dataset.cell);
    if (!found.size) found = factsOf((other) => facts.get(other).get("scenario") === scenario);
    joined.set(key, found);
  }
  return [...(joined.get(key).get(name) ?? [])];
}

function isShown(row) {
  for (const [name, wanted] of filtered) {
    if (name === "hide") {
      const own = valuesOf(row, "verdict");
      if (own.length && own.every((value) => wanted.has(value))) return false;
      continue;
    }
    const own = valuesOf(row, name);
    if (wanted.size && own.length && !own.some((value) => wanted.has(value))) return false;
  }
  return true;
}

const counted = (visible) => `${visible} of ${results.length} cells shown`;
const count = make("output", { "aria-live": "polite" }, counted(results.length));

function apply() {
  const shown = new Set();
  const known = new Set(results.map((row) => facts.get(row).get("scenario")));
  for (const of of tables) {
    for (const { title, rows } of of.bodies) {
      let any = rows.length === 0;
      for (const row of rows) {
        row.hidden = row.dataset.cell !== undefined && !isShown(row);
        any ||= !row.hidden;
        if (row.id && !row.hidden) shown.add(facts.get(row)?.get("scenario"));
      }
      if (title) title.hidden = !any;
    }
    markRepeated(of);
  }
  for (const figure of all("figure[data-scenario]")) {
    const { row, scenario } = figure.dataset;
    figure.hidden = row ? !isShown(results[row]) : known.has(scenario) && !shown.has(scenario);
  }
  for (const mark of all("g[data-row],g[data-cell]")) {
    mark.classList.toggle("out", !isShown(results[mark.dataset.row] ?? mark));
  }
  count.textContent = counted(results.filter((row) => !row.hidden).length);
  for (const box of all(".filter input")) {
    box.checked = filtered.get(box.name)?.has(box.value) ?? false;
  }
  for (const facet of all(".filter details")) {
    const chosen = [...(filtered.get(facet.dataset.facet) ?? [])];
    facet.querySelector("b").textContent = chosen.length ? chosen.join(", ") : "all";
  }
}

function readAddress() {
  const hash = location.hash.slice(1);
  if (hash !== "" && !hash.includes("=")) return reveal(hash);
  const wasFiltered = filtered.size > 0;
  filtered.clear();
  for (const [name, value] of new URLSearchParams(hash)) {
    if (name === "hide" || everything.has(name)) put(filtered, name, value);
  }
  if (wasFiltered || filtered.size) apply();
}

function writeAddress() {
  const query = new URLSearchParams();
  for (const [name, values] of filtered) for (const value of values) query.append(name, value);
  const { pathname, search } = location;
  history.replaceState(null, "", `${pathname}${search}${query.size ? `#${query}` : ""}`);
}

/** What the address points at is shown, whatever is filtered or folded. */
function reveal(id) {
  const target = document.getElementById(id);
  if (!target) return;
  if (target.hidden) {
    filtered.clear();
    apply();
  }
  const inner = target.querySelector(":scope > .more") ?? target;
  for (let fold = inner.closest("details"); fold; fold = fold.parentElement.closest("details")) {
    fold.open = true;
  }
  target.scrollIntoView();
}

function choose(name, value, isChosen) {
  if (isChosen) put(filtered, name, value);
  else filtered.get(name).delete(value);
  if (!filtered.get(name).size) filtered.delete(name);
  writeAddress();
  apply();
}

function addFilter() {
  if (results.length < 2 || !facets.length) return;
  const form = make("form", { class: "filter", role: "search", "aria-label": "Filter cells" });
  form.addEventListener("submit", (event) => event.preventDefault());
  const box = (name, value, label) => {
    const change = (event) => choose(name, value, event.target.checked);
    const input = make("input", { type: "checkbox", name, value, change });
    return make("label", {}, input, ` ${label}`);
  };
  for (const [name, values] of facets) {
    const sorted = [...values].sort(words.compare);
    const boxes = sorted.map((value) => box(name, value, value));
    const head = make("summary", {}, `${name.replaceAll("_", " ")}: `, make("b", {}, "all"));
    form.append(make("details", { "data-facet": name }, head, make("div", {}, ...boxes)));
  }
  if (everything.get("verdict")?.has("unchanged")) {
    form.append(box("hide", "unchanged", "hide unchanged"));
  }
  const click = () => {
    filtered.clear();
    writeAddress();
    apply();
  };
  form.append(count, make("button", { type: "button", click }, "Show all"));
  document.querySelector("nav").after(form);
  rove(form);
}

// Plots along time.

const read = make("div", { class: "readout", hidden: "" });
document.body.append(read);

const numbers = (text) => text.split(" ").map(Number);

/** Three significant digits, as the page's own numbers have about. */
function rounded(value) {
  const digits = Math.abs(value) >= 1000 ? 0 : 2 - Math.floor(Math.log10(Math.abs(value) || 1));
  return value.toFixed(clamp(digits, 0, 6));
}

/** A panel: its two scales, and its lines as they were drawn. */
function panelOf(group) {
  const [left, right, low, high] = numbers(group.dataset.along);
  const [bottom, top, least, most] = numbers(group.dataset.up);
  const [above, below] = numbers(group.dataset.paper);
  const moving = all("polyline,polygon,rect,circle,text", group)
    .filter((one) => !one.closest("[data-fixed]"))
    .map((element) => ({ element, drawn: drawnOf(element) }));
  const series = all("[data-series]", group).map((one) => {
    const line = one.querySelector("polyline");
    const points = line ? pointsOf(line) : [];
    const shape = line ?? one.querySelector("circle,rect,polygon");
    const colour = /[fs]-((?:series|part)-\d|\w+)/.exec(shape?.getAttribute("class") ?? "");
    return { name: one.dataset.series, points, ink: colour?.[1] ?? "text" };
  });
  return {
    group, left, right, low, high, above, below, moving, series,
    name: group.dataset.panel, unit: group.dataset.unit, alongUnit: group.dataset.alongUnit,
    valueAt(y) {
      const share = (y - bottom) / (top - bottom);
      if (!("log" in group.dataset)) return least + share * (most - least);
      return least * (most / least) ** share;
    },
  };
}

const pointsOf = (line) =>
  line.getAttribute("points").trim().split(/\s+/).map((pair) => pair.split(",").map(Number));

function drawnOf(element) {
  if (element.hasAttribute("points")) return pointsOf(element);
  const attribute = { rect: ["x", "width"], circle: ["cx"], text: ["x"] }[element.tagName];
  return attribute.map((name) => Number(element.getAttribute(name)));
}

/** The height of a line at this place; `null` before its begin and behind its end. */
function heightAt(points, x) {
  const next = points.findIndex((point) => point[0] >= x);
  if (next < 0) return null;
  const [x1, y1] = points[next];
  if (x1 === x || next === 0) return x1 === x ? y1 : null;
  const [x0, y0] = points[next - 1];
  return y0 + ((y1 - y0) * (x - x0)) / (x1 - x0);
}

/** The part of a line between two places, its ends cut off there. */
function cut(points, from, to) {
  const inside = points.filter(([x]) => x > from && x < to);
  const ends = [from, to].map((x) => [x, heightAt(points, x)]);
  const [first, last] = ends.map((end) => (end[1] === null ? [] : [end]));
  return [...first, ...inside, ...last];
}

/** Draws a panel so that `from` to `to`, shares of its lower axis, fill it. */
function enlarge(panel, from, to) {
  const { left, right } = panel;
  const [begin, end] = [from, to].map((share) => left + share * (right - left));
  const place = (x) => left + ((x - begin) / (end - begin)) * (right - left);
  const round = (value) => Math.round(value * 10) / 10;
  for (const { element, drawn } of panel.moving) {
    const set = (name, value) => element.setAttribute(name, round(value));
    let isThere = true;
    if (element.tagName === "polyline") {
      const points = to - from === 1 ? drawn : cut(drawn, begin, end);
      isThere = points.length > 0;
      const moved = points.map(([x, y]) => `${round(place(x))},${round(y)}`);
      element.setAttribute("points", moved.join(" "));
    } else if (element.tagName === "polygon") {
      isThere = drawn.every(([x]) => x >= begin && x <= end);
      const middle = drawn.reduce((sum, [x]) => sum + x, 0) / drawn.length;
      const moved = drawn.map(([x, y]) => `${round(x - middle + place(middle))},${y}`);
      element.setAttribute("points", moved.join(" "));
    } else if (element.tagName === "rect") {
      const ends = [drawn[0], drawn[0] + drawn[1]].map((x) => clamp(place(x), left, right));
      isThere = drawn[0] <= end && drawn[0] + drawn[1] >= begin;
      set("x", ends[0]);
      set("width", ends[1] - ends[0]);
    } else {
      isThere = drawn[0] >= begin && drawn[0] <= end;
      set(element.tagName === "circle" ? "cx" : "x", place(drawn[0]));
    }
    element.classList.toggle("away", !isThere);
  }
}

/** All that is drawn of one run. */
function makeReadable(paper) {
  const sheets = all("svg", paper).map((svg) => {
    const panels = all("[data-panel]", svg).map(panelOf);
    const cursor = svgElement("g", { class: "cursor", "aria-hidden": "true" });
    svg.append(cursor);
    return { svg, panels, cursor };
  });
  const first = sheets[0].panels[0];
  let [from, to, at, on] = [0, 1, null, first];

  const hide = () => {
    read.hidden = true;
    for (const { cursor } of sheets) cursor.replaceChildren();
  };
  const shown = () => sheets.find(({ svg }) => svg.getBoundingClientRect().width > 0) ?? sheets[0];

  /** Shows what the lines are at `at`, a value of the lower axis. */
  const show = () => {
    const { panels, cursor } = shown();
    cursor.replaceChildren();
    const texts = [];
    for (const panel of panels) {
      const { left, right, low, high, above, below } = panel;
      const drawn = left + ((at - low) / (high - low)) * (right - left);
      const x = left + (((drawn - left) / (right - left) - from) / (to - from)) * (right - left);
      if (!(x >= left - 1 && x <= right + 1)) continue;
      const line = { x1: x, x2: x, y1: above, y2: below, class: "s-text", "stroke-width": 8 };
      cursor.append(svgElement("line", line));
      const values = [];
      for (const { name, points, ink } of panel.series) {
        const y = heightAt(points, drawn);
        if (y === null) continue;
        cursor.append(svgElement("circle", { cx: x, cy: y, r: 28, class: `f-${ink}` }));
        values.push(`${name} ${rounded(panel.valueAt(y))} ${panel.unit}`.trim());
      }
      if (values.length) texts.push([panel, `${panel.name} ${values.join(", ")}`.trim()]);
    }
    // Of many the panel under the pointer alone, or nobody could read them.
    const few = texts.length > 12 ? texts.filter(([panel]) => panel.name === on.name) : texts;
    const { alongUnit } = first;
    const place = alongUnit === "s" ? `${rounded(at)} s` : `${alongUnit} ${Math.round(at)}`;
    read.textContent = `${place}: ${few.map(([, text]) => text).join(" · ")}`;
    read.hidden = false;
  };

  const reset = make("button", { type: "button", hidden: "", click: () => zoom(0, 1) }, "Reset zoom");
  const zoom = (begin, end) => {
    const width = clamp(end - begin, 0.01, 1);
    from = clamp(begin, 0, 1 - width);
    to = from + width;
    for (const { svg, panels } of sheets) {
      for (const panel of panels) enlarge(panel, from, to);
      svg.classList.toggle("enlarged", width < 1);
      all(".ends", svg).forEach((one) => one.remove());
      if (width < 1) addEnds(panels);
    }
    reset.hidden = width === 1;
    if (at !== null) show();
  };
  /** The ends of the enlarged lower axes, in place of their ticks. */
  const addEnds = (panels) => {
    const lowest = Math.max(...panels.map(({ below }) => below));
    for (const panel of panels) {
      if (panel.alongUnit === "s" && panel.below < lowest) continue;
      const { left, right, low, high, below } = panel;
      for (const [share, x, anchor] of [[from, left, "start"], [to, right, "end"]]) {
        const value = rounded(low + share * (high - low));
        const where = { x, y: below + 100, "text-anchor": anchor, "font-size": 110, dy: "0.5ex" };
        const text = panel.alongUnit === "s" ? `${value} s` : value;
        panel.group.after(svgElement("text", { ...where, class: "f-muted ends" }, text));
      }
    }
  };
  const zoomAt = (factor) => {
    const { low, high } = first;
    const share = at === null ? (from + to) / 2 : (at - low) / (high - low);
    zoom(share - (share - from) * factor, share + (to - share) * factor);
  };

  /** The panel under a pointer, and the value of its lower axis there. */
  const under = (event) => {
    const { svg, panels } = shown();
    const point = new DOMPoint(event.clientX, event.clientY);
    const { x, y } = point.matrixTransform(svg.querySelector("[data-panel]").getScreenCTM().inverse());
    const panel = panels.find(({ left, right, above, below }) =>
      x >= left && x <= right && y >= above - 200 && y <= below + 200);
    if (!panel) return null;
    const share = from + ((x - panel.left) / (panel.right - panel.left)) * (to - from);
    return { panel, share, value: panel.low + share * (panel.high - panel.low) };
  };
  const listen = paper.addEventListener.bind(paper);
  let begun = null;
  listen("pointerdown", (event) => {
    begun = under(event)?.share ?? null;
  });
  listen("pointermove", (event) => {
    const found = under(event);
    if (!found) return hide();
    ({ value: at, panel: on } = found);
    show();
  });
  listen("pointerup", (event) => {
    const end = under(event)?.share ?? null;
    if (begun !== null && end !== null && Math.abs(end - begun) > 0.02 * (to - from)) {
      zoom(Math.min(begun, end), Math.max(begun, end));
    }
    begun = null;
  });
  listen("pointerleave", hide);
  listen("blur", hide);
  listen("keydown", (event) => {
    const { low, high } = first;
    const width = (to - from) * (high - low);
    const ends = [low + from * (high - low), low + to * (high - low)];
    const step = width * (event.shiftKey ? 0.1 : 0.01);
    const move = (value) => {
      at = clamp(value, ...ends);
      show();
    };
    const now = at ?? ends[0];
    const keys = {
      ArrowLeft: () => move(now - step),
      ArrowRight: () => move(now + step),
      Home: () => move(ends[0]),
      End: () => move(ends[1]),
      "+": () => zoomAt(0.5),
      "=": () => zoomAt(0.5),
      "-": () => zoomAt(2),
      Escape: () => zoom(0, 1),
    };
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  paper.tabIndex = 0;
  paper.setAttribute("role", "application");
  const keys = "arrows read values, + and − zoom, Escape resets";
  paper.setAttribute("aria-label", `${paper.getAttribute("aria-label")}; ${keys}`);
  paper.title = `Drag to zoom; with the keyboard, ${keys}`;
  listen("focus", () => read.setAttribute("role", "status"));
  listen("blur", () => read.removeAttribute("role"));
  return reset;
}

// Drawings as files.

const PAINTS = ["fill", "stroke", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "paint-order"];

/** The drawing as a file of its own, with the colours that it has on the page now. */
function fileOf(svg) {
  const copy = svg.cloneNode(true);
  const shown = [svg, ...all("*", svg)];
  const font = getComputedStyle(svg).fontFamily;
  [copy, ...all("*", copy)].forEach((element, place) => {
    const style = getComputedStyle(shown[place]);
    for (const name of PAINTS) {
      const value = style.getPropertyValue(name);
      if (value && !["none", "normal"].includes(value)) element.setAttribute(name, value);
    }
    if (style.fill === "none") element.setAttribute("fill", "none");
    if (style.stroke !== "none" && !element.hasAttribute("stroke-width")) {
      element.setAttribute("stroke-width", style.strokeWidth);
    }
    for (const name of element.getAttributeNames()) {
      if (name === "class" || name.startsWith("data-")) element.removeAttribute(name);
    }
  });
  all("title,desc", copy).forEach((one) => one.removeAttribute("id"));
  copy.removeAttribute("aria-labelledby");
  copy.querySelector("g[aria-hidden]")?.remove();
  const [, , width, height] = numbers(svg.getAttribute("viewBox"));
  copy.setAttribute("width", width / 10);
  copy.setAttribute("height", height / 10);
  copy.setAttribute("font-family", font);
  const paper = getComputedStyle(document.body).backgroundColor;
  copy.querySelector("desc").after(svgElement("rect", { width, height, fill: paper }));
  return new XMLSerializer().serializeToString(copy);
}

function download(svg, name) {
  const href = URL.createObjectURL(new Blob([fileOf(svg)], { type: "image/svg+xml" }));
  const file = name.toLowerCase().replace(/[^a-z0-9._]+/g, "-").replace(/^-+|-+$/g, "");
  make("a", { href, download: `${file || "plot"}.svg` }).click();
}

function addTools(figure) {
  const paper = figure.querySelector(".paper");
  const named = paper.getAttribute("aria-label");
  const tools = make("p", { class: "tools" });
  const save = () => all("svg", paper).forEach((svg, place) => {
    download(svg, place ? `${named} ${place + 1}` : named);
  });
  tools.append(button("SVG", `Download as SVG: ${named}`, save));
  if (figure.querySelector("[data-panel]")) tools.append(makeReadable(paper));
  paper.after(tools);
}

// A region that has nothing to scroll is no stop on the way through the page, and the head of a
// table that fits stays at the top of the window.
function fit() {
  // What is folded has no size, and asking for it takes seconds on a large page.
  const regions = all(".scroll,.paper").filter((region) => region.checkVisibility());
  const measured = regions.map((region) => [region, region.scrollWidth <= region.clientWidth + 1]);
  for (const [region, fits] of measured) {
    region.classList.toggle("fits", fits);
    if (region.getAttribute("role") === "application") continue;
    if (fits) region.removeAttribute("tabindex");
    else region.tabIndex = 0;
  }
}

/** Once, however much changes before the next picture. */
let due = 0;
function fitSoon() {
  cancelAnimationFrame(due);
  due = requestAnimationFrame(fit);
}

tables.forEach(makeSortable);
tables.forEach(addCopies);
addCommands();
for (const { table } of tables) rove(table.closest(".scroll").previousElementSibling, table);
addFilter();
all("figure:has(.paper svg)").forEach(addTools);
addEventListener("hashchange", readAddress);
addEventListener("resize", fitSoon);
addEventListener("toggle", fitSoon, true);
readAddress();
fit();
})();
