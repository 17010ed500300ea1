// @ts-check
/**
 * The script of explore.html: shows the rows of the page as they were published. It filters, sorts and crosses; it adds
 * nothing up.
 *
 * @typedef {{column: string, title: string, role: "level" | "area" | "variable", codes: [string, string][],
 *   width: 1 | 2 | 4, places: Uint8Array | Uint16Array | Uint32Array}} Dimension
 * @typedef {{name: string, title: string, dimensions: Dimension[], heads: string[], figures: (number | null)[][]}} Table
 */
(() => {
  const TOTAL = "_T", STEP = 200, MOST_TILES = 600, MOST_BARS = 100;
  /** @type {{language: string, words: Record<string, string>, tables: Table[]}} */
  const content = JSON.parse(document.getElementById("content")?.textContent ?? "{}");
  const { words, tables } = content;
  const kinds = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array };
  for (const each of tables.flatMap((table) => table.dimensions)) {
    const bytes = Uint8Array.from(atob(String(each.places)), (sign) => sign.charCodeAt(0));
    each.places = new kinds[each.width](bytes.buffer);
  }
  const choices = /** @type {HTMLElement} */ (document.getElementById("choices"));
  const results = /** @type {HTMLElement} */ (document.getElementById("results"));
  const form = /** @type {HTMLFormElement} */ (document.getElementById("view"));
  const state = { table: 0, show: "rows", where: /** @type {Record<string, string>} */ ({}), search: "", down: "", across: "", colour: "figure", order: "", descending: false };

  /** @param {string} tag @param {Record<string, string>} attributes @param {(Node | string)[]} inside */
  function make(tag, attributes = {}, ...inside) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...inside);
    return element;
  }

  const plain = new Intl.NumberFormat(content.language, { maximumFractionDigits: 2 });
  /** @param {number} value */
  const text = (value) => plain.format(value);
  /** @param {string} word @param {number} number */
  const said = (word, number) => words[word].replace("{number}", text(number));

  /** @param {Table} table @param {number} row */
  function figure(table, row) {
    const get = (/** @type {string} */ name) => { const at = table.heads.indexOf(name); return at < 0 ? null : table.figures[at][row]; };
    const value = table.figures[0][row];
    if (value === null) return { value: null, margin: null, low: null, high: null, node: make("span", { class: "none" }, words.suppressed) };
    const margin = get("noise_margin"), low = get("low"), high = get("high");
    const node = make("span", {}, text(value));
    if (margin !== null) node.append(" ", make("span", { class: "pm" }, `± ${text(margin)}`));
    else if (low !== null && high !== null) node.append(" ", make("span", { class: "pm" }, `${text(low)} ${words.to} ${text(high)}`));
    return { value, margin, low: margin !== null ? value - margin : low, high: margin !== null ? value + margin : high, node };
  }

  /** The rows that have these codes. @param {Table} table @param {Record<string, string>} where */
  function rowsOf(table, where) {
    const tests = table.dimensions.flatMap((each) => {
      const code = where[each.column];
      if (!code) return [];
      const fits = each.codes.map(([known]) => known === code);
      return [(/** @type {number} */ row) => fits[each.places[row]]];
    });
    const area = table.dimensions.find((each) => each.role === "area"), wanted = state.search.trim().toLowerCase();
    if (wanted && area) {
      const fits = area.codes.map(([code, label]) => `${code} ${label}`.toLowerCase().includes(wanted));
      tests.push((row) => fits[area.places[row]]);
    }
    const rows = [];
    for (let row = 0; row < table.figures[0].length; row++) if (tests.every((test) => test(row))) rows.push(row);
    return rows;
  }

  /** @param {Table} table @param {number[]} rows */
  function sorted(table, rows) {
    const by = table.dimensions.find((each) => each.column === state.order);
    if (!by && state.order !== "#figure") return rows;
    /** @type {(row: number) => number} */
    let key = (row) => table.figures[0][row] ?? -Infinity;
    if (by) {
      const order = by.codes.map((_, at) => at).sort((a, b) => by.codes[a][1].localeCompare(by.codes[b][1], content.language, { numeric: true }));
      const rank = new Array(order.length);
      order.forEach((at, place) => { rank[at] = place; });
      key = (row) => rank[by.places[row]];
    }
    const side = state.descending ? -1 : 1;
    return [...rows].sort((a, b) => side * (key(a) - key(b)) || a - b);
  }

  /** @param {string} label @param {string} id @param {[string, string][]} options @param {string} chosen @param {(code: string) => void} act */
  function select(label, id, options, chosen, act) {
    const list = /** @type {HTMLSelectElement} */ (make("select", { id }));
    for (const [code, name] of options) list.append(new Option(name, code, false, code === chosen));
    list.addEventListener("change", () => { act(list.value); draw(); document.getElementById(id)?.focus(); });
    return make("label", { class: "field" }, make("span", {}, label), list);
  }

  /** @param {Table} table */
  const crossable = (table) => table.dimensions.filter((each) => each.role !== "level");
  /** @param {Table} table */
  const hasAreas = (table) => table.dimensions.some((each) => each.role === "area");

  function controls() {
    const table = tables[state.table];
    const shows = /** @type {[string, string][]} */ ([["rows", words.rows], ["cross", words.cross], ["bars", words.bars], ...(hasAreas(table) ? [["tiles", words.tiles]] : [])]);
    choices.replaceChildren(
      select(words.table, "table", tables.map((each, at) => [String(at), each.title]), String(state.table), (at) => { begin(Number(at)); }),
      select(words.show, "show", shows, state.show, (show) => { state.show = show; }),
      ...table.dimensions.filter((each) => each.role !== "area").map((each, at) =>
        select(each.title, `where-${at}`, [["", words.all], ...each.codes], state.where[each.column] ?? "", (code) => { state.where[each.column] = code; })),
    );
    if (hasAreas(table)) {
      const input = /** @type {HTMLInputElement} */ (make("input", { type: "search", id: "search", value: state.search }));
      input.addEventListener("input", () => { state.search = input.value; show(); });
      choices.append(make("label", { class: "field" }, make("span", {}, words.search), input));
    }
    if (state.show === "cross" || state.show === "bars") {
      const names = /** @type {[string, string][]} */ (crossable(table).map((each) => [each.column, each.title]));
      choices.append(select(words.down, "down", names, state.down, (name) => { state.down = name; }));
      if (state.show === "cross") choices.append(select(words.across, "across", [["", words.nothing], ...names], state.across, (name) => { state.across = name; }));
    }
    if (state.show === "tiles" && table.heads.includes("noise_margin"))
      choices.append(select(words.colour, "colour", [["figure", words.figure], ["margin", words.margin]], state.colour, (what) => { state.colour = what; }));
  }

  /** What the others are held at: what is chosen, else all together, else the first. @param {Table} table @param {string[]} free */
  function held(table, free) {
    /** @type {Record<string, string>} */
    const where = {};
    for (const each of table.dimensions) {
      if (free.includes(each.column)) { if (state.where[each.column]) where[each.column] = state.where[each.column]; continue; }
      if (each.role === "area") {
        const first = rowsOf(table, { level: state.where.level ?? "" })[0];
        if (first !== undefined) where[each.column] = each.codes[each.places[first]][0];
        continue;
      }
      where[each.column] = state.where[each.column] || (each.codes.some(([code]) => code === TOTAL) ? TOTAL : each.codes[0][0]);
    }
    return where;
  }

  /** @param {string} caption @param {Node[]} heads @param {Node[]} lines */
  function grid(caption, heads, lines) {
    const table = make("table", {}, make("caption", { class: "away" }, caption), make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...lines));
    return make("div", { class: "grid", tabindex: "0", role: "region", "aria-label": caption }, table);
  }

  /** The head of a column that sorts by it. @param {string} column @param {string} title @param {string} kind */
  function head(column, title, kind) {
    const button = make("button", { type: "button", id: `by-${column}` }, title), own = state.order === column;
    button.addEventListener("click", () => {
      state.descending = own && !state.descending;
      state.order = column;
      show();
      document.getElementById(`by-${column}`)?.focus();
    });
    const sort = own ? { "aria-sort": state.descending ? "descending" : "ascending" } : {};
    return make("th", { scope: "col", ...(kind ? { class: kind } : {}), .../** @type {Record<string, string>} */ (sort) }, button);
  }

  /** Rows, some at a time: more are put below as somebody scrolls. @param {Table} table */
  function flat(table) {
    const rows = sorted(table, rowsOf(table, state.where));
    const heads = [...table.dimensions.map((each) => head(each.column, each.title, "")), head("#figure", words.figure, "n")];
    const line = (/** @type {number} */ row) => make("tr", {},
      ...table.dimensions.map((each) => { const [code, label] = each.codes[each.places[row]]; return make("td", code === TOTAL ? { class: "all" } : {}, label); }),
      make("td", { class: "n" }, figure(table, row).node));
    const shown = grid(table.title, heads, rows.slice(0, STEP).map(line)), body = shown.querySelector("tbody");
    let done = Math.min(STEP, rows.length);
    const more = () => {
      if (done >= rows.length) return;
      body?.append(...rows.slice(done, done + STEP).map(line));
      done = Math.min(done + STEP, rows.length);
    };
    shown.addEventListener("scroll", () => { if (shown.scrollTop + shown.clientHeight > shown.scrollHeight - 600) more(); });
    const end = make("span", {});
    shown.append(end);
    new IntersectionObserver((seen) => { if (seen.some((each) => each.isIntersecting)) more(); }, { rootMargin: "400px" }).observe(end);
    return [make("p", { class: "meta" }, said("number", rows.length)), shown];
  }

  /** @param {Table} table */
  function cross(table) {
    const down = table.dimensions.find((each) => each.column === state.down) ?? crossable(table)[0];
    const across = table.dimensions.find((each) => each.column === state.across && each !== down);
    const rows = rowsOf(table, held(table, [down.column, across?.column ?? ""]));
    const cells = new Map(rows.map((row) => [`${down.places[row]} ${across ? across.places[row] : 0}`, row]));
    const all = [...new Set(rows.map((row) => down.places[row]))], lines = all.slice(0, STEP);
    const columns = across ? [...new Set(rows.map((row) => across.places[row]))].slice(0, STEP) : [0];
    const heads = [make("th", { scope: "col" }, down.title), ...columns.map((at) => make("th", { scope: "col", class: "n" }, across ? across.codes[at][1] : table.title))];
    const body = lines.map((line) => make("tr", {}, make("th", { scope: "row" }, down.codes[line][1]), ...columns.map((at) => {
      const row = cells.get(`${line} ${at}`);
      return make("td", { class: "n" }, row === undefined ? "" : figure(table, row).node);
    })));
    const cut = all.length > lines.length ? [make("p", { class: "meta" }, `${said("number", all.length)}, ${said("first", STEP)}`)] : [];
    return [...cut, grid(table.title, heads, body)];
  }

  /** @param {Table} table */
  function bars(table) {
    const down = table.dimensions.find((each) => each.column === state.down) ?? crossable(table)[0];
    const all = rowsOf(table, held(table, [down.column])).filter((row) => down.codes[down.places[row]][0] !== TOTAL), rows = all.slice(0, MOST_BARS);
    const shown = rows.map((row) => ({ label: down.codes[down.places[row]][1], ...figure(table, row) }));
    const largest = Math.max(1, ...shown.map((each) => Math.max(each.value ?? 0, each.high ?? 0)));
    const svg = "http://www.w3.org/2000/svg", left = 200, width = 700, height = 24;
    const picture = document.createElementNS(svg, "svg");
    picture.setAttribute("viewBox", `0 0 ${left + width + 90} ${shown.length * height + 10}`);
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", `${words.bars}: ${table.title}, ${down.title}`);
    shown.forEach((each, at) => {
      const scale = (/** @type {number} */ value) => left + (Math.max(0, value) / largest) * width, y = at * height + 4;
      /** @param {string} tag @param {Record<string, string | number>} attributes @param {string} [inside] */
      const add = (tag, attributes, inside) => {
        const element = document.createElementNS(svg, tag);
        for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
        if (inside) element.textContent = inside;
        picture.append(element);
      };
      add("text", { x: left - 8, y: y + 13, "text-anchor": "end", "font-size": 12, fill: "#1b1f24" }, each.label.length > 32 ? `${each.label.slice(0, 31)}…` : each.label);
      if (each.value === null) return;
      add("rect", { x: left, y, width: scale(each.value) - left, height: height - 8, fill: "#0072B2", opacity: 0.85 });
      if (each.low !== null && each.high !== null) add("line", { x1: scale(each.low), x2: scale(each.high), y1: y + 8, y2: y + 8, stroke: "#1b1f24", "stroke-width": 1.5 });
      add("text", { x: scale(Math.max(each.value, each.high ?? 0)) + 6, y: y + 13, "font-size": 12, fill: "#57606a" }, text(each.value));
    });
    const cut = all.length > rows.length ? [make("p", { class: "meta" }, `${said("number", all.length)}, ${said("first", MOST_BARS)}`)] : [];
    return [...cut, make("figure", {}, picture, make("figcaption", {}, words.lines))];
  }

  /** Areas of one size, coloured by the figure or by its margin: from pale to deep. @param {Table} table */
  function tiles(table) {
    const area = /** @type {Dimension} */ (table.dimensions.find((each) => each.role === "area"));
    const all = rowsOf(table, held(table, [area.column])), rows = all.slice(0, MOST_TILES);
    const shown = rows.map((row) => {
      const own = figure(table, row);
      return { name: area.codes[area.places[row]][1], shade: state.colour === "margin" ? own.margin : own.value, own };
    });
    const known = shown.flatMap((each) => (each.shade === null ? [] : [each.shade]));
    const low = Math.min(...known), high = Math.max(...known);
    const list = make("ul", { class: "tiles" }, ...shown.map(({ name, shade, own }) => {
      const tile = make("li", shade === null ? { class: "hollow" } : {}, make("b", {}, own.node), name);
      if (shade !== null) {
        const part = high > low ? (shade - low) / (high - low) : 0, mix = (/** @type {number} */ a, /** @type {number} */ b) => Math.round(a + (b - a) * part);
        tile.style.backgroundColor = `rgb(${mix(226, 0)}, ${mix(238, 70)}, ${mix(249, 125)})`;
        if (part > 0.45) tile.className = "deep";
      }
      return tile;
    }));
    for (const margin of list.querySelectorAll(".pm")) margin.className = "";
    const cut = all.length > rows.length ? `, ${said("first", MOST_TILES)}` : "";
    const label = state.colour === "margin" ? words.margin : words.figure;
    return [make("p", { class: "meta" }, `${words.colour}: ${label}${known.length ? `, ${text(low)} ${words.to} ${text(high)}` : ""}${cut}`), list];
  }

  function show() {
    const table = tables[state.table], views = { rows: flat, cross, bars, tiles };
    results.replaceChildren(...views[/** @type {keyof typeof views} */ (state.show)](table));
  }

  function draw() { controls(); show(); }

  /** @param {number} at */
  function begin(at) {
    Object.assign(state, { table: at, where: {}, search: "", order: "", descending: false });
    const table = tables[at], names = crossable(table).map((each) => each.column);
    const level = table.dimensions.find((each) => each.role === "level");
    if (level) state.where[level.column] = level.codes[0][0];
    state.down = names[0] ?? "";
    state.across = names[1] ?? "";
    if (state.show === "tiles" && !hasAreas(table)) state.show = "rows";
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  if (tables.length) { begin(0); draw(); } else results.append(words.large);
})();
