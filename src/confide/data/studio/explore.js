// @ts-check
/**
 * The script of explore.html: shows the rows of the page as they were published. It filters, sorts, crosses and draws;
 * it adds nothing up. Outlines of areas are those of the page, or of a file that somebody chooses, which goes nowhere.
 *
 * @typedef {{column: string, title: string, role: "level" | "area" | "variable", codes: [string, string][],
 *   width: 1 | 2 | 4, places: Uint8Array | Uint16Array | Uint32Array}} Dimension
 * @typedef {{name: string, title: string, dimensions: Dimension[], heads: string[], figures: (number | null)[][]}} Table
 * @typedef {number[][][]} Shape polygons of rings, each x and y in turns, y upwards
 * @typedef {{properties: Record<string, any>, polygons: [number, number][][][]}} Feature
 */
(() => {
  const TOTAL = "_T", STEP = 200, MOST_TILES = 600, MOST_BARS = 100, MOST_LINES = 7, LARGEST_FILE = 1 << 26;
  const DEEP = 0.69; // of the way from pale to deep: up to here black letters have more contrast than white ones, at least 4.5 to 1
  const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000"], INK = "#1b1f24", SOFT = "#57606a", LINE = "#d9dde1";
  /** @type {{language: string, words: Record<string, string>, tables: Table[], outlines?: Record<string, [string, Shape][]>}} */
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
  /** The file of outlines that somebody chose: in memory alone. @type {{name: string, features: Feature[]} | null} */
  let chosen = null;
  let refusal = "";

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
    list.addEventListener("change", () => { act(list.value); keep(false); draw(); document.getElementById(id)?.focus(); });
    return make("label", { class: "field" }, make("span", {}, label), list);
  }

  /** @param {Table} table */
  const crossable = (table) => table.dimensions.filter((each) => each.role !== "level");
  /** @param {Table} table */
  const hasAreas = (table) => table.dimensions.some((each) => each.role === "area");

  /** The places of a variable's groups whose labels go upwards by their first number, such as ages. @param {Dimension} dimension */
  function ordered(dimension) {
    if (dimension.role !== "variable") return [];
    const groups = dimension.codes.flatMap(([code, label], at) => (code === TOTAL ? [] : [{ at, number: Number(label.match(/\d+/)?.[0] ?? -1) }]));
    while (groups.length && groups[groups.length - 1].number < 0) groups.pop();
    const upwards = groups.every(({ number }, place) => number >= 0 && (!place || number >= groups[place - 1].number));
    return upwards && new Set(groups.map((each) => each.number)).size > 2 ? groups.map((each) => each.at) : [];
  }

  /** The two variables of a pyramid. @param {Table} table */
  function sexAndAge(table) {
    const named = (/** @type {RegExp} */ name) => table.dimensions.filter((each) => each.role === "variable" && name.test(each.column));
    const [sex] = named(/^sex\b/i).filter((each) => each.codes.filter(([code]) => code !== TOTAL).length === 2), [age] = named(/^age\b/i);
    return sex && age ? { sex, age } : null;
  }

  /** The ways in which a table can be looked at. @param {Table} table @returns {[string, string][]} */
  const shows = (table) => [
    ["rows", words.rows], ["cross", words.cross], ["bars", words.bars],
    ...(table.dimensions.some((each) => ordered(each).length) ? [/** @type {[string, string]} */ (["line", words.line])] : []),
    ...(sexAndAge(table) ? [/** @type {[string, string]} */ (["pyramid", words.pyramid])] : []),
    ...(hasAreas(table) ? [/** @type {[string, string]} */ (["map", words.map])] : []),
  ];

  function controls() {
    const table = tables[state.table];
    choices.replaceChildren(
      select(words.table, "table", tables.map((each, at) => [String(at), each.title]), String(state.table), (at) => { begin(Number(at)); }),
      select(words.show, "show", shows(table), state.show, (show) => { state.show = show; }),
      ...table.dimensions.filter((each) => each.role !== "area").map((each, at) =>
        select(each.title, `where-${at}`, [["", words.all], ...each.codes], state.where[each.column] ?? "", (code) => { state.where[each.column] = code; })),
    );
    if (hasAreas(table)) {
      const input = /** @type {HTMLInputElement} */ (make("input", { type: "search", id: "search", value: state.search }));
      input.addEventListener("input", () => { state.search = input.value; keep(true); show(); });
      choices.append(make("label", { class: "field" }, make("span", {}, words.search), input));
    }
    if (["cross", "bars", "line"].includes(state.show)) {
      const line = state.show === "line", names = /** @type {[string, string][]} */ (crossable(table).map((each) => [each.column, each.title]));
      const over = line ? names.filter(([column]) => table.dimensions.some((each) => each.column === column && ordered(each).length)) : names;
      choices.append(select(line ? words.along : words.down, "down", over, state.down, (name) => { state.down = name; }));
      if (state.show !== "bars") choices.append(select(line ? words.each : words.across, "across", [["", words.nothing], ...names], state.across, (name) => { state.across = name; }));
    }
    if (state.show === "map") {
      if (table.heads.includes("noise_margin")) choices.append(select(words.colour, "colour", [["figure", words.figure], ["margin", words.margin]], state.colour, (what) => { state.colour = what; }));
      const input = /** @type {HTMLInputElement} */ (make("input", { type: "file", id: "outlines", accept: ".geojson,.json,application/geo+json" }));
      input.addEventListener("change", () => { const file = input.files?.[0]; if (file) take(file); });
      choices.append(make("label", { class: "field" }, make("span", {}, words.outlines), input, make("small", {}, words.local)));
    }
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
      keep(false);
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

  const SVG = "http://www.w3.org/2000/svg";
  /** A picture of this size, and how something is put into it. @param {number} width @param {number} height @param {string} label */
  function picture(width, height, label) {
    const svg = document.createElementNS(SVG, "svg");
    for (const [name, value] of Object.entries({ viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label })) svg.setAttribute(name, value);
    /** @param {string} tag @param {Record<string, string | number>} attributes @param {string} [inside] */
    const add = (tag, attributes, inside) => {
      const element = document.createElementNS(SVG, tag);
      for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
      if (inside) element.textContent = inside;
      svg.append(element);
      return element;
    };
    return { svg, add };
  }
  const short = (/** @type {string} */ label, most = 32) => (label.length > most ? `${label.slice(0, most - 1)}…` : label);
  /** @param {SVGElement} svg @param {...string} said */
  const framed = (svg, ...said) => make("figure", {}, make("div", { tabindex: "0", role: "group", "aria-label": svg.getAttribute("aria-label") ?? "" }, svg), make("figcaption", {}, said.join(" ")));

  /** @param {Table} table */
  function bars(table) {
    const down = table.dimensions.find((each) => each.column === state.down) ?? crossable(table)[0];
    const all = rowsOf(table, held(table, [down.column])).filter((row) => down.codes[down.places[row]][0] !== TOTAL), rows = all.slice(0, MOST_BARS);
    const shown = rows.map((row) => ({ label: down.codes[down.places[row]][1], ...figure(table, row) }));
    const largest = Math.max(1, ...shown.map((each) => Math.max(each.value ?? 0, each.high ?? 0))), left = 200, width = 700, height = 24;
    const { svg, add } = picture(left + width + 90, shown.length * height + 10, `${words.bars}: ${table.title}, ${down.title}`);
    shown.forEach((each, at) => {
      const scale = (/** @type {number} */ value) => left + (Math.max(0, value) / largest) * width, y = at * height + 4;
      add("text", { x: left - 8, y: y + 13, "text-anchor": "end", "font-size": 12, fill: INK }, short(each.label));
      if (each.value === null) return;
      add("rect", { x: left, y, width: scale(each.value) - left, height: height - 8, fill: COLOURS[0], opacity: 0.85 });
      if (each.low !== null && each.high !== null) add("line", { x1: scale(each.low), x2: scale(each.high), y1: y + 8, y2: y + 8, stroke: INK, "stroke-width": 1.5 });
      add("text", { x: scale(Math.max(each.value, each.high ?? 0)) + 6, y: y + 13, "font-size": 12, fill: SOFT }, text(each.value));
    });
    const cut = all.length > rows.length ? [make("p", { class: "meta" }, `${said("number", all.length)}, ${said("first", MOST_BARS)}`)] : [];
    return [...cut, framed(svg, words.lines)];
  }

  /** Round numbers from 0, or from below it, to the largest. @param {number} low @param {number} high */
  function ticks(low, high) {
    const rough = (high - low) / 5 || 1, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough) ?? power;
    const result = [];
    for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) result.push(at + 0); // not -0
    return result;
  }

  /** Lines over the groups of a variable that have an order. @param {Table} table */
  function line(table) {
    const fitting = table.dimensions.filter((each) => ordered(each).length);
    const down = fitting.find((each) => each.column === state.down) ?? fitting[0];
    const across = table.dimensions.find((each) => each.column === state.across && each !== down);
    const rows = rowsOf(table, held(table, [down.column, across?.column ?? ""]));
    const there = new Set(rows.map((row) => down.places[row])), groups = ordered(down).filter((at) => there.has(at));
    const all = across ? [...new Set(rows.map((row) => across.places[row]))] : [0], parts = all.slice(0, MOST_LINES);
    const cells = new Map(rows.map((row) => [`${down.places[row]} ${across ? across.places[row] : 0}`, figure(table, row)]));
    const shown = parts.map((part) => groups.map((at) => cells.get(`${at} ${part}`)));
    const numbers = shown.flat().flatMap((each) => [each?.value, each?.low, each?.high]).filter((each) => typeof each === "number");
    const low = Math.min(0, ...numbers), high = Math.max(1, ...numbers), left = 80, width = 860, top = across ? 34 : 14, height = 330;
    const { svg, add } = picture(left + width + 30, top + height + 70, `${words.line}: ${table.title}, ${down.title}`);
    const y = (/** @type {number} */ value) => top + height * (1 - (value - low) / (high - low));
    const x = (/** @type {number} */ at) => left + (width * (at + 0.5)) / Math.max(1, groups.length);
    for (const each of ticks(low, high)) {
      add("line", { x1: left, x2: left + width, y1: y(each), y2: y(each), stroke: LINE });
      add("text", { x: left - 8, y: y(each) + 4, "text-anchor": "end", "font-size": 12, fill: INK }, text(each));
    }
    const every = Math.ceil(groups.length / 18);
    groups.forEach((at, place) => {
      if (place % every === 0) add("text", { x: x(place), y: top + height + 18, "text-anchor": groups.length > 9 ? "end" : "middle", "font-size": 12, fill: INK, ...(groups.length > 9 ? { transform: `rotate(-35 ${x(place)} ${top + height + 18})` } : {}) }, short(down.codes[at][1], groups.length > 9 ? 14 : 18));
    });
    shown.forEach((cellsOfPart, part) => {
      const colour = COLOURS[part], shift = (part - (parts.length - 1) / 2) * Math.min(4, width / groups.length / 12);
      const points = cellsOfPart.flatMap((each, place) => (typeof each?.value === "number" ? [`${x(place) + shift},${y(each.value)}`] : []));
      add("polyline", { points: points.join(" "), fill: "none", stroke: colour, "stroke-width": 1.8 });
      cellsOfPart.forEach((each, place) => {
        if (typeof each?.value !== "number") return;
        if (each.low !== null && each.high !== null) add("line", { x1: x(place) + shift, x2: x(place) + shift, y1: y(each.low), y2: y(each.high), stroke: colour, "stroke-width": 1.4 });
        add("circle", { cx: x(place) + shift, cy: y(each.value), r: 3, fill: colour });
      });
      if (across) {
        const from = left + part * (width / MOST_LINES);
        add("rect", { x: from, y: 6, width: 14, height: 8, fill: colour });
        add("text", { x: from + 19, y: 15, "font-size": 12, fill: INK }, short(across.codes[parts[part]][1], 15));
      }
    });
    return [framed(svg, `${down.title}.`, words.lines, ...(all.length > parts.length ? [`${said("number", all.length)}, ${said("first", MOST_LINES)}.`] : []))];
  }

  /** Ages upwards, one sex to the left and the other to the right. @param {Table} table */
  function pyramid(table) {
    const { sex, age } = /** @type {{sex: Dimension, age: Dimension}} */ (sexAndAge(table));
    const rows = rowsOf(table, { ...held(table, [age.column, sex.column]), [sex.column]: "", [age.column]: "" });
    const cells = new Map(rows.map((row) => [`${age.places[row]} ${sex.places[row]}`, figure(table, row)]));
    const sides = sex.codes.flatMap(([code], at) => (code === TOTAL ? [] : [at])), there = new Set(rows.map((row) => age.places[row]));
    const ages = age.codes.flatMap(([code], at) => (code === TOTAL || !there.has(at) ? [] : [at])).reverse();
    const largest = Math.max(1, ...[...ages.flatMap((at) => sides.map((side) => cells.get(`${at} ${side}`)))].flatMap((each) => [each?.value ?? 0, each?.high ?? 0]));
    const left = 130, half = 400, bar = ages.length > 40 ? 9 : 20, middle = left + half, end = 34 + ages.length * bar;
    const { svg, add } = picture(left + 2 * half + 40, end + 30, `${words.pyramid}: ${table.title}`);
    sides.forEach((side, number) => {
      const way = number ? 1 : -1, scale = (/** @type {number} */ value) => middle + (way * Math.max(0, value) * half) / largest;
      add("text", { x: middle + way * 14, y: 18, "text-anchor": number ? "start" : "end", "font-size": 13, fill: INK }, sex.codes[side][1]);
      for (const each of ticks(0, largest)) {
        add("line", { x1: scale(each), x2: scale(each), y1: 28, y2: end, stroke: LINE });
        if (each || number) add("text", { x: scale(each), y: end + 18, "text-anchor": "middle", "font-size": 12, fill: INK }, text(each));
      }
      ages.forEach((at, place) => {
        const own = cells.get(`${at} ${side}`), y = 30 + place * bar;
        if (!number && (bar > 10 || place % 5 === ages.length % 5)) add("text", { x: left - 8, y: y + bar / 2 + 3, "text-anchor": "end", "font-size": 12, fill: INK }, short(age.codes[at][1], 20));
        if (typeof own?.value !== "number") return;
        const from = Math.min(middle, scale(own.value));
        add("rect", { x: from, y: y + 1, width: Math.abs(scale(own.value) - middle), height: bar - 2, fill: COLOURS[number], opacity: 0.85 });
        if (own.low !== null && own.high !== null) add("line", { x1: scale(own.low), x2: scale(own.high), y1: y + bar / 2, y2: y + bar / 2, stroke: INK, "stroke-width": 1.4 });
      });
    });
    return [framed(svg, words.lines)];
  }

  /** From pale to deep. @param {number} part */
  function shaded(part) {
    const mix = (/** @type {number} */ a, /** @type {number} */ b) => Math.round(a + (b - a) * part);
    return `rgb(${mix(226, 0)}, ${mix(238, 70)}, ${mix(249, 125)})`;
  }

  /** The polygons of a GeoJSON text; none where it is another. @param {string} content @returns {Feature[]} */
  function features(content) {
    const given = JSON.parse(content);
    return given.features.filter((/** @type {any} */ each) => each.geometry).map((/** @type {any} */ each) => {
      const { type, coordinates } = each.geometry;
      if (type !== "Polygon" && type !== "MultiPolygon") throw new TypeError(type);
      const polygons = (type === "Polygon" ? [coordinates] : coordinates).map((/** @type {any[]} */ rings) => rings.filter((ring) => ring.length > 3).map((ring) => ring.map((/** @type {any[]} */ point) => {
        if (!Number.isFinite(point[0]) || !Number.isFinite(point[1])) throw new TypeError("point");
        return [point[0], point[1]];
      })));
      return { properties: each.properties ?? {}, polygons };
    });
  }

  /** A file of outlines that somebody chose. @param {File} file */
  async function take(file) {
    refusal = "";
    try {
      if (file.size > LARGEST_FILE) throw new RangeError("size");
      chosen = { name: file.name, features: features(await file.text()) };
    } catch {
      chosen = null;
      refusal = words.no_outlines;
    }
    show();
  }

  /** By code the feature, under the reading of the properties that finds the most areas, each once, as Confide matches them. @param {Feature[]} given @param {Set<string>} codes */
  function matched(given, codes) {
    const widths = [...new Set([...codes].map((code) => code.length))].sort((a, b) => b - a);
    /** @type {((value: string) => string[])[]} */
    const readings = [
      (value) => [value],
      (value) => [value.slice(value.lastIndexOf("US") < 0 ? 0 : value.lastIndexOf("US") + 2)],
      (value) => widths.filter((width) => width > 1 && width < value.length).map((width) => value.slice(-width)),
    ];
    const names = [...new Set(given.flatMap((each) => Object.keys(each.properties)))].sort();
    /** @type {Map<string, Feature>} */
    let best = new Map();
    for (const reading of readings) for (const name of names) {
      const own = new Map();
      let repeated = false;
      for (const each of given) {
        const value = each.properties[name], code = typeof value === "string" || typeof value === "number" ? reading(String(value)).find((part) => codes.has(part)) : undefined;
        if (code === undefined) continue;
        repeated ||= own.has(code);
        own.set(code, each);
      }
      if (own.size > best.size && !repeated) best = own;
    }
    return best;
  }

  /** Degrees as a plane: longitudes shrink by the cosine of the middle latitude, and are shifted past 180°. @param {Map<string, Feature>} found @returns {Map<string, Shape>} */
  function planar(found) {
    let west = Infinity, east = -Infinity, south = Infinity, north = -Infinity;
    for (const each of found.values()) for (const [x, y] of each.polygons.flat(2)) {
      west = Math.min(west, x); east = Math.max(east, x); south = Math.min(south, y); north = Math.max(north, y);
    }
    const crosses = east - west > 180, shrink = Math.cos((((south + north) / 2) * Math.PI) / 180);
    return new Map([...found].map(([code, each]) => [code, each.polygons.map((rings) => rings.map((ring) => ring.flatMap(([x, y]) => [(crosses && x < 0 ? x + 360 : x) * shrink, y])))]));
  }

  /** Where the areas of the rows are: by the chosen file, else by the page. @param {Set<string>} codes @param {string} level @returns {{shapes: Map<string, Shape>, from: string} | null} */
  function outlines(codes, level) {
    if (chosen) {
      const found = matched(chosen.features, codes);
      if (found.size) return { shapes: planar(found), from: chosen.name };
      refusal = said("no_codes", 0).replace("{code}", [...codes][0] ?? "");
    }
    const own = content.outlines?.[level];
    return own ? { shapes: new Map(own.filter(([code]) => codes.has(code))), from: "" } : null;
  }

  /** Areas, coloured by the figure or by its margin: as a map where there are outlines, else as tiles. @param {Table} table */
  function map(table) {
    const area = /** @type {Dimension} */ (table.dimensions.find((each) => each.role === "area"));
    const where = held(table, [area.column]), rows = rowsOf(table, where);
    const shown = rows.map((row) => {
      const [code, name] = area.codes[area.places[row]], own = figure(table, row);
      return { code, name, shade: state.colour === "margin" ? own.margin : own.value, own };
    });
    const known = shown.flatMap((each) => (each.shade === null ? [] : [each.shade]));
    const low = known.reduce((a, b) => Math.min(a, b), Infinity), high = known.reduce((a, b) => Math.max(a, b), -Infinity);
    const part = (/** @type {number} */ shade) => (high > low ? (shade - low) / (high - low) : 0);
    const label = state.colour === "margin" ? words.margin : words.figure;
    const scale = `${words.colour}: ${label}${known.length ? `, ${text(low)} ${words.to} ${text(high)}` : ""}`;
    const found = outlines(new Set(shown.map((each) => each.code)), where.level ?? "");
    const alert = refusal ? [make("p", { class: "refusal", role: "alert" }, refusal)] : [];
    refusal = "";
    return [...alert, ...(found ? drawn(found, shown, part, `${table.title}. ${scale}`, scale) : tiles(shown, part, scale))];
  }

  /** @typedef {{code: string, name: string, shade: number | null, own: ReturnType<typeof figure>}} ShownArea */
  /** @param {{shapes: Map<string, Shape>, from: string}} found @param {ShownArea[]} shown @param {(shade: number) => number} part @param {string} title @param {string} scale */
  function drawn(found, shown, part, title, scale) {
    let west = Infinity, east = -Infinity, south = Infinity, north = -Infinity;
    for (const shape of found.shapes.values()) for (const ring of shape.flat()) for (let at = 0; at < ring.length; at += 2) {
      west = Math.min(west, ring[at]); east = Math.max(east, ring[at]); south = Math.min(south, ring[at + 1]); north = Math.max(north, ring[at + 1]);
    }
    const size = 640 / Math.max((east - west) * 0.7, north - south, 1e-9), width = Math.max(320, (east - west) * size), height = (north - south) * size;
    const { svg, add } = picture(width + 8, height + 52, `${words.map}: ${title}`);
    const place = (/** @type {number} */ x, /** @type {number} */ y) => `${(4 + (x - west) * size).toFixed(1)},${(4 + (north - y) * size).toFixed(1)}`;
    for (const { code, name, shade, own } of shown) {
      const shape = found.shapes.get(code);
      if (!shape) continue;
      const path = shape.flat().map((ring) => {
        const points = [];
        for (let at = 0; at < ring.length; at += 2) points.push(place(ring[at], ring[at + 1]));
        return `M${points.join("L")}Z`;
      });
      const area = add("path", { d: path.join(""), fill: shade === null ? LINE : shaded(part(shade)), stroke: SOFT, "stroke-width": 0.6, "fill-rule": "evenodd" });
      const tip = document.createElementNS(SVG, "title");
      tip.textContent = `${name}: ${own.node.textContent}`;
      area.append(tip);
    }
    for (let step = 0; step < 40; step++) add("rect", { x: 4 + step * 6, y: height + 18, width: 6.4, height: 12, fill: shaded(step / 39) });
    add("text", { x: 4, y: height + 46, "font-size": 13, fill: INK }, scale);
    const missing = shown.filter((each) => !found.shapes.has(each.code)).length;
    return [framed(svg, ...(found.from ? [`${found.from}.`] : []), ...(missing ? [`${said("without", missing)}.`] : []))];
  }

  /** @param {ShownArea[]} shown @param {(shade: number) => number} part @param {string} scale */
  function tiles(shown, part, scale) {
    const list = make("ul", { class: "tiles" }, ...shown.slice(0, MOST_TILES).map(({ name, shade, own }) => {
      const tile = make("li", shade === null ? { class: "hollow" } : {}, make("b", {}, own.node), name);
      if (shade !== null) {
        tile.style.backgroundColor = shaded(part(shade));
        if (part(shade) > DEEP) tile.className = "deep";
      }
      return tile;
    }));
    for (const margin of list.querySelectorAll(".pm")) margin.className = "";
    const cut = shown.length > MOST_TILES ? `, ${said("first", MOST_TILES)}` : "";
    return [make("p", { class: "meta" }, `${scale}${cut}. ${words.tiles}`), list];
  }

  /** What is shown, in words: the table, and what each variable is held at. @param {Table} table */
  function told(table) {
    const names = { rows: [], cross: [state.down, state.across], bars: [state.down], line: [state.down, state.across], pyramid: [], map: [] };
    const pair = state.show === "pyramid" ? sexAndAge(table) : null, area = table.dimensions.find((each) => each.role === "area");
    const free = [...(names[/** @type {keyof typeof names} */ (state.show)] ?? []), ...(pair ? [pair.sex.column, pair.age.column] : []), ...(state.show === "map" && area ? [area.column] : [])];
    const where = state.show === "rows" ? state.where : held(table, free);
    const parts = table.dimensions.flatMap((each) => {
      const code = where[each.column], known = each.codes.find(([own]) => own === code);
      return known ? [`${each.title}: ${known[1]}`] : [];
    });
    if (state.search.trim()) parts.push(`${words.search}: ${state.search.trim()}`);
    return make("p", { class: "held" }, make("b", {}, table.title), ...parts.flatMap((part) => [" · ", make("span", {}, part)]));
  }

  function show() {
    const table = tables[state.table], views = { rows: flat, cross, bars, line, pyramid, map };
    results.replaceChildren(told(table), ...views[/** @type {keyof typeof views} */ (state.show)](table));
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
    if (!shows(table).some(([each]) => each === state.show)) state.show = "rows";
  }

  /** The view as the end of the address, so that a reload and the back button find it again. */
  function fragment() {
    const pairs = new URLSearchParams({ table: tables[state.table].name, show: state.show, down: state.down, across: state.across, colour: state.colour });
    for (const [column, code] of Object.entries(state.where)) if (code) pairs.append("where", `${column}=${code}`);
    for (const [name, value] of Object.entries({ search: state.search, order: state.order, descending: state.descending ? "yes" : "" })) if (value) pairs.set(name, value);
    return `#${pairs}`;
  }

  /** @param {boolean} instead whether the new address takes the place of the old */
  function keep(instead) {
    if (location.hash === fragment()) return;
    if (instead) location.replace(fragment());
    else location.hash = fragment();
  }

  /** The view that the address says, as far as the page has it. */
  function restore() {
    const pairs = new URLSearchParams(location.hash.slice(1)), at = Math.max(0, tables.findIndex((each) => each.name === pairs.get("table")));
    state.show = pairs.get("show") ?? "rows";
    begin(at);
    if (!pairs.has("table")) return;
    const table = tables[at], names = crossable(table).map((each) => each.column);
    const own = (/** @type {string} */ name) => { const value = pairs.get(name); return value !== null && (value === "" || names.includes(value)) ? value : null; };
    state.down = own("down") || state.down;
    state.across = own("across") ?? state.across;
    state.colour = pairs.get("colour") === "margin" ? "margin" : "figure";
    state.search = pairs.get("search") ?? "";
    state.order = pairs.get("order") ?? "";
    state.descending = pairs.has("descending");
    state.where = {};
    for (const each of table.dimensions) {
      const code = pairs.getAll("where").find((pair) => pair.startsWith(`${each.column}=`))?.slice(each.column.length + 1);
      if (code && each.codes.some(([known]) => known === code)) state.where[each.column] = code;
    }
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", () => { if (tables.length && location.hash !== fragment()) { restore(); draw(); } });
  if (tables.length) { restore(); draw(); } else results.append(words.large);
})();
