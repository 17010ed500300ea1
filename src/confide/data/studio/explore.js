// @ts-check
/**
 * The script of explore.html: shows the rows of the page as they were published. It filters, sorts and crosses; it adds
 * nothing up.
 *
 * @typedef {{column: string, title: string, codes: [string, string][], places: number[]}} Dimension
 * @typedef {{name: string, title: string, dimensions: Dimension[], heads: string[], figures: (number | null)[][],
 *   status: (string | null)[] | null}} Table
 */
(() => {
  const TOTAL = "_T", MOST = 500;
  /** @type {Table[]} */
  const tables = JSON.parse(document.getElementById("content")?.textContent ?? "{}").tables;
  const choices = /** @type {HTMLElement} */ (document.getElementById("choices"));
  const results = /** @type {HTMLElement} */ (document.getElementById("results"));
  const form = /** @type {HTMLFormElement} */ (document.getElementById("view"));
  const state = { table: 0, show: "rows", where: /** @type {Record<string, string>} */ ({}), search: "", down: "", across: "" };

  /** @param {string} tag @param {Record<string, string>} attributes @param {(Node | string)[]} inside */
  function make(tag, attributes = {}, ...inside) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...inside);
    return element;
  }

  /** @param {number} value */
  const text = (value) => value.toLocaleString("en-US", { maximumFractionDigits: 2 });

  /** @param {Table} table @param {number} row */
  function figure(table, row) {
    const get = (/** @type {string} */ name) => { const at = table.heads.indexOf(name); return at < 0 ? null : table.figures[at][row]; };
    const value = table.figures[0][row];
    if (value === null || table.status?.[row] === "suppressed") return { value: null, low: null, high: null, node: make("span", { class: "none" }, "suppressed") };
    const margin = get("noise_margin"), low = get("low"), high = get("high");
    const node = make("span", {}, text(value));
    if (margin !== null) node.append(" ", make("span", { class: "pm" }, `± ${text(margin)}`));
    else if (low !== null && high !== null) node.append(" ", make("span", { class: "pm" }, `${text(low)} to ${text(high)}`));
    return { value, low: margin !== null ? value - margin : low, high: margin !== null ? value + margin : high, node };
  }

  /** @param {Table} table @param {Record<string, string>} where */
  function rowsOf(table, where) {
    const tests = table.dimensions.flatMap((each) => {
      const code = where[each.column];
      if (!code) return [];
      const place = each.codes.findIndex(([known]) => known === code);
      return [(/** @type {number} */ row) => each.places[row] === place];
    });
    const area = table.dimensions.find((each) => each.column === "area"), wanted = state.search.trim().toLowerCase();
    if (wanted && area) {
      const fits = area.codes.map(([code, label]) => `${code} ${label}`.toLowerCase().includes(wanted));
      tests.push((row) => fits[area.places[row]]);
    }
    const rows = [];
    for (let row = 0; row < table.figures[0].length; row++) if (tests.every((test) => test(row))) rows.push(row);
    return rows;
  }

  /** @param {string} label @param {string} id @param {[string, string][]} options @param {string} chosen @param {(code: string) => void} act */
  function select(label, id, options, chosen, act) {
    const list = /** @type {HTMLSelectElement} */ (make("select", { id }));
    for (const [code, name] of options) list.append(new Option(name, code, false, code === chosen));
    list.addEventListener("change", () => { act(list.value); draw(); document.getElementById(id)?.focus(); });
    return make("label", { class: "field" }, make("span", {}, label), list);
  }

  /** @param {Table} table */
  const crossable = (table) => table.dimensions.filter((each) => each.column !== "level");

  function controls() {
    const table = tables[state.table];
    choices.replaceChildren(
      select("Table", "table", tables.map((each, at) => [String(at), each.title]), String(state.table), (at) => { begin(Number(at)); }),
      select("Show as", "show", [["rows", "Rows"], ["cross", "Cross-table"], ["bars", "Bars"]], state.show, (show) => { state.show = show; }),
      ...table.dimensions.filter((each) => each.column !== "area").map((each, at) =>
        select(each.title, `where-${at}`, [["", "all values"], ...each.codes], state.where[each.column] ?? "", (code) => { state.where[each.column] = code; })),
    );
    if (table.dimensions.some((each) => each.column === "area")) {
      const input = /** @type {HTMLInputElement} */ (make("input", { type: "search", id: "search", value: state.search }));
      input.addEventListener("input", () => { state.search = input.value; show(); });
      choices.append(make("label", { class: "field" }, make("span", {}, "Area: code or part of the name"), input));
    }
    if (state.show !== "rows") {
      const names = /** @type {[string, string][]} */ (crossable(table).map((each) => [each.column, each.title]));
      choices.append(select("Down", "down", names, state.down, (name) => { state.down = name; }));
      if (state.show === "cross") choices.append(select("Across", "across", [["", "nothing"], ...names], state.across, (name) => { state.across = name; }));
    }
  }

  /** What the others are held at: what is chosen, else all together, else the first. @param {Table} table @param {string[]} free */
  function held(table, free) {
    /** @type {Record<string, string>} */
    const where = {};
    for (const each of table.dimensions) {
      if (free.includes(each.column)) { if (state.where[each.column]) where[each.column] = state.where[each.column]; continue; }
      if (each.column === "area") {
        const first = rowsOf(table, { level: state.where.level ?? "" })[0];
        if (first !== undefined) where.area = each.codes[each.places[first]][0];
        continue;
      }
      where[each.column] = state.where[each.column] || (each.codes.some(([code]) => code === TOTAL) ? TOTAL : each.codes[0][0]);
    }
    return where;
  }

  /** @param {string} caption @param {Node[]} heads @param {Node[]} lines */
  function grid(caption, heads, lines) {
    const table = make("table", {}, make("caption", { class: "away" }, caption), make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...lines));
    return make("div", { class: "scroll grid", tabindex: "0", role: "region", "aria-label": caption }, table);
  }

  /** @param {Table} table */
  function flat(table) {
    const rows = rowsOf(table, state.where);
    const heads = [...table.dimensions.map((each) => make("th", { scope: "col" }, each.title)), make("th", { scope: "col", class: "n" }, "Figure")];
    const lines = rows.slice(0, MOST).map((row) => make("tr", {},
      ...table.dimensions.map((each) => { const [code, label] = each.codes[each.places[row]]; return make("td", code === TOTAL ? { class: "all" } : {}, label); }),
      make("td", { class: "n" }, figure(table, row).node)));
    const more = rows.length > MOST ? `, of which the first ${text(MOST)} are shown` : "";
    return [make("p", { class: "meta" }, `${text(rows.length)} rows${more}`), grid(table.title, heads, lines)];
  }

  /** @param {Table} table */
  function cross(table) {
    const down = table.dimensions.find((each) => each.column === state.down) ?? crossable(table)[0];
    const across = table.dimensions.find((each) => each.column === state.across && each !== down);
    const rows = rowsOf(table, held(table, [down.column, across?.column ?? ""]));
    const cells = new Map(rows.map((row) => [`${down.places[row]} ${across ? across.places[row] : 0}`, row]));
    const lines = [...new Set(rows.map((row) => down.places[row]))].slice(0, MOST);
    const columns = across ? [...new Set(rows.map((row) => across.places[row]))] : [0];
    const heads = [make("th", { scope: "col" }, down.title), ...columns.map((at) => make("th", { scope: "col", class: "n" }, across ? across.codes[at][1] : table.title))];
    const body = lines.map((line) => make("tr", {}, make("th", { scope: "row" }, down.codes[line][1]), ...columns.map((at) => {
      const row = cells.get(`${line} ${at}`);
      return make("td", { class: "n" }, row === undefined ? "" : figure(table, row).node);
    })));
    return [grid(table.title, heads, body)];
  }

  /** @param {Table} table */
  function bars(table) {
    const down = table.dimensions.find((each) => each.column === state.down) ?? crossable(table)[0];
    const rows = rowsOf(table, held(table, [down.column])).filter((row) => down.codes[down.places[row]][0] !== TOTAL).slice(0, 100);
    const shown = rows.map((row) => ({ label: down.codes[down.places[row]][1], ...figure(table, row) }));
    const largest = Math.max(1, ...shown.map((each) => Math.max(each.value ?? 0, each.high ?? 0)));
    const svg = "http://www.w3.org/2000/svg", left = 200, width = 700, height = 24;
    const picture = document.createElementNS(svg, "svg");
    picture.setAttribute("viewBox", `0 0 ${left + width + 90} ${shown.length * height + 10}`);
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", `Bars: ${table.title} by ${down.title}; the rows have the same figures`);
    shown.forEach((each, at) => {
      const scale = (/** @type {number} */ value) => left + (Math.max(0, value) / largest) * width, y = at * height + 4;
      /** @param {string} tag @param {Record<string, string | number>} attributes @param {string} [inside] */
      const add = (tag, attributes, inside) => {
        const element = document.createElementNS(svg, tag);
        for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
        if (inside) element.textContent = inside;
        picture.append(element);
      };
      add("text", { x: left - 8, y: y + 13, "text-anchor": "end", "font-size": 12, fill: "#1b1f24" }, each.label.slice(0, 32));
      if (each.value === null) return;
      add("rect", { x: left, y, width: scale(each.value) - left, height: height - 8, fill: "#0072B2", opacity: 0.85 });
      if (each.low !== null && each.high !== null) add("line", { x1: scale(each.low), x2: scale(each.high), y1: y + 8, y2: y + 8, stroke: "#1b1f24", "stroke-width": 1.5 });
      add("text", { x: scale(Math.max(each.value, each.high ?? 0)) + 6, y: y + 13, "font-size": 12, fill: "#57606a" }, text(each.value));
    });
    const holder = make("div", {});
    holder.append(picture);
    return [make("figure", {}, holder, make("figcaption", {}, "Thin lines: how far the noise may have moved a figure, as published."))];
  }

  function show() {
    const table = tables[state.table];
    results.replaceChildren(...(state.show === "rows" ? flat(table) : state.show === "cross" ? cross(table) : bars(table)));
  }

  function draw() { controls(); show(); }

  /** @param {number} at */
  function begin(at) {
    state.table = at;
    state.where = {};
    state.search = "";
    const table = tables[at], names = crossable(table).map((each) => each.column);
    const level = table.dimensions.find((each) => each.column === "level");
    if (level) state.where.level = level.codes[0][0];
    state.down = names[0] ?? "";
    state.across = names[1] ?? "";
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  if (tables.length) { begin(0); draw(); } else results.append("The tables of this release are too large for one page.");
})();
