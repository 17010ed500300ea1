// @ts-check
/**
 * The one script of the studio. Pages work without it: every control is a form or a link. With it, a change shows its
 * result at once: the page of the new address is fetched and the parts that it has anew take the place of the old.
 * Nothing is computed here, and nothing is kept.
 */

const WAIT = 250; // milliseconds after the last key

/** @type {AbortController | null} */
let running = null;
/** @type {number | undefined} */
let waiting;

/**
 * Fetches a page and puts the parts that it has anew into the place of the old ones. A page that names its own address
 * gets it; `own` is for what answers a form that was sent: its address leads to no page, so only one of its own will do.
 * @param {string} address @param {string[]} parts @param {"push" | "replace" | "own" | "none"} history @param {RequestInit} sent @param {Element | null} [cause]
 */
async function show(address, parts, history, sent = {}, cause = document.activeElement) {
  running?.abort();
  running = new AbortController();
  document.querySelector("main")?.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(address, { ...sent, signal: running.signal, credentials: "same-origin" });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const own = page.querySelector("link[rel=canonical]")?.getAttribute("href");
    const focus = cause instanceof HTMLElement ? cause : null;
    const mark = focus && (focus.id ? `#${CSS.escape(focus.id)}` : named(focus));
    for (const part of answer.ok ? parts : ["main"]) {
      const old = document.querySelector(part), now = page.querySelector(part);
      if (old && now) old.replaceWith(now);
    }
    document.title = page.title;
    const lasting = own ?? (history === "own" ? null : address);
    if (lasting && history === "replace") window.history.replaceState(null, "", lasting);
    if (lasting && (history === "push" || history === "own")) window.history.pushState(null, "", lasting);
    if (focus && !document.contains(focus)) {
      // Whoever works by keyboard goes on from where they were, or else from the beginning of the content.
      const again = (mark && document.querySelector(mark)) || document.querySelector("main");
      if (again instanceof HTMLElement) again.focus({ preventScroll: true });
    }
    prepare();
  } catch (error) {
    if (!(error instanceof DOMException && error.name === "AbortError")) sent.method ? window.location.reload() : window.location.assign(address);
  } finally {
    document.querySelector("main")?.removeAttribute("aria-busy");
  }
}

/** @param {HTMLElement} element */
function named(element) {
  const name = element.getAttribute("name"), value = element.getAttribute("value");
  return name ? `[name="${CSS.escape(name)}"]${value ? `[value="${CSS.escape(value)}"]` : ""}` : null;
}

/** @param {HTMLFormElement} form */
function addressOf(form) {
  const pairs = [...new FormData(form)].filter(([, value]) => typeof value === "string" && value !== "");
  return `${new URL(form.action).pathname}?${new URLSearchParams(/** @type {any} */ (pairs))}`;
}

/** @param {HTMLFormElement} form @param {EventTarget | null} cause */
function refresh(form, cause) {
  const shape = cause instanceof HTMLInputElement && cause.name === "show";
  const parts = shape ? ["main"] : (form.dataset.live ?? "main").split(",");
  show(addressOf(form), parts, "push");
}

/**
 * Sends a form whose values must not stand in an address, and shows what came of it.
 * @param {HTMLFormElement} form @param {Element} cause @param {Record<string, string>} [more]
 */
function send(form, cause, more = {}) {
  const pairs = [...new FormData(form), ...Object.entries(more)];
  const body = new URLSearchParams(/** @type {any} */ (pairs));
  show(form.action, (form.dataset.send ?? "main").split(","), "own", { method: "POST", body }, cause);
}

/** @param {HTMLInputElement} input */
async function upload(input) {
  const file = input.files?.[0];
  if (!file) return;
  const answer = await fetch(`${input.dataset.upload}${encodeURIComponent(file.name)}`, { method: "PUT", body: file });
  const said = await answer.json();
  if (answer.ok) {
    const form = input.form, select = form?.querySelector("#map");
    if (form && select instanceof HTMLSelectElement) {
      select.add(new Option(said.name, said.name, true, true));
      show(addressOf(form), ["main"], "push");
    }
    return;
  }
  const words = document.createElement("p");
  words.setAttribute("role", "alert");
  words.className = "refusal";
  words.textContent = said.findings?.[0] ? `${said.findings[0].what}. ${said.findings[0].remedy ?? ""}` : "The file was refused.";
  input.closest("label")?.after(words);
}

/** More rows as somebody scrolls: the next page is put below this one. */
function more() {
  const link = document.querySelector("a[data-more]"), grid = document.querySelector(".grid");
  if (!(link instanceof HTMLAnchorElement) || !grid || link.dataset.watched) return;
  link.dataset.watched = "yes";
  let busy = false;
  grid.addEventListener("scroll", async () => {
    const next = document.querySelector("a[data-more]");
    if (busy || !(next instanceof HTMLAnchorElement) || grid.scrollTop + grid.clientHeight < grid.scrollHeight - 600) return;
    busy = true;
    const page = new DOMParser().parseFromString(await (await fetch(next.href)).text(), "text/html");
    const rows = page.querySelectorAll(".grid tbody tr"), body = grid.querySelector("tbody");
    body?.append(...rows);
    const pager = page.querySelector(".pager"), old = document.querySelector(".pager");
    if (pager && old) old.replaceWith(pager);
    busy = false;
  });
}

const EVERY = 1000; // milliseconds between two looks at a job that runs

/** A part of the page that changes by itself is asked for again. */
function poll() {
  const part = document.querySelector("[data-poll]");
  if (!(part instanceof HTMLElement) || part.dataset.watched) return;
  part.dataset.watched = "yes";
  window.setTimeout(async () => {
    try {
      const answer = await fetch(part.dataset.poll ?? "", { credentials: "same-origin" });
      const now = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(part.id);
      if (answer.ok && now && document.contains(part)) part.replaceWith(now);
      if (answer.ok && now?.hasAttribute("data-done")) show(window.location.href, ["main"], "none");
      else delete part.dataset.watched;
    } catch {
      delete part.dataset.watched; // the studio has stopped; a job goes on without it
    }
    prepare();
  }, EVERY);
}

/** What only works with this script is shown by it. */
function prepare() {
  document.documentElement.classList.add("scripted");
  for (const each of document.querySelectorAll("[data-copy], [data-print], .script-only")) each.removeAttribute("hidden");
  more();
  poll();
}

document.addEventListener("change", (event) => {
  const input = event.target;
  if (!(input instanceof HTMLInputElement || input instanceof HTMLSelectElement)) return;
  if (input instanceof HTMLInputElement && input.dataset.upload) { upload(input); return; }
  window.clearTimeout(waiting);
  if (input.form?.dataset.send && input.id !== "new-code") send(input.form, input);
  if (input.form?.dataset.live && !(input instanceof HTMLInputElement && input.type === "search")) refresh(input.form, input);
});

document.addEventListener("input", (event) => {
  const input = event.target;
  if (!(input instanceof HTMLInputElement) || !["search", "range"].includes(input.type) || !input.form?.dataset.live) return;
  const form = input.form;
  window.clearTimeout(waiting);
  // While a slider is dragged it stays in its place; what it moves is shown.
  const parts = (input.type === "range" && form.dataset.drag) || form.dataset.live || "main";
  waiting = window.setTimeout(() => show(addressOf(form), parts.split(","), "replace"), WAIT);
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!(form instanceof HTMLFormElement) || !form.dataset.live || form.method !== "get") return;
  event.preventDefault();
  refresh(form, null);
});

/** A button that says what to do is a part of what a live form sends. */
document.addEventListener("click", (event) => {
  const button = event.target instanceof Element ? event.target.closest("button[name=do]") : null;
  const form = button instanceof HTMLButtonElement ? button.form : null;
  if (!(button instanceof HTMLButtonElement) || !form || !(form.dataset.live || form.dataset.send)) return;
  event.preventDefault();
  const more = { do: button.value };
  if (form.dataset.send) send(form, button, more);
  else show(`${addressOf(form)}&${new URLSearchParams(more)}`, (form.dataset.live ?? "main").split(","), "push");
});

document.addEventListener("click", (event) => {
  if (event.target instanceof Element && event.target.closest("[data-print]")) window.print();
  const target = event.target instanceof Element ? event.target : null;
  const link = target?.closest("a[data-live]"), copy = target?.closest("[data-copy]");
  if (link instanceof HTMLAnchorElement && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    show(link.href, ["main"], "push");
  }
  if (copy instanceof HTMLElement) {
    const text = document.querySelector(copy.dataset.copy ?? "")?.textContent ?? "";
    navigator.clipboard.writeText(text).then(() => { copy.textContent = "Copied"; });
  }
});

/** @param {Element} each */
function isChanged(each) {
  if (each instanceof HTMLSelectElement) {
    const options = [...each.options];
    const first = each.multiple || options.some((option) => option.defaultSelected) ? undefined : options[0];
    return options.some((option) => option.selected !== (option.defaultSelected || option === first));
  }
  if (!(each instanceof HTMLInputElement)) return false;
  if (["checkbox", "radio"].includes(each.type)) return each.checked !== each.defaultChecked;
  return ["text", "number", "search"].includes(each.type) && each.value !== each.defaultValue;
}

/**
 * What somebody chose before this script was there is shown, too. A page that was loaded again or gone back to has the
 * form that the browser remembers: there the address counts.
 */
function catchUp() {
  const [entry] = performance.getEntriesByType("navigation");
  if (!(entry instanceof PerformanceNavigationTiming) || entry.type !== "navigate") return;
  const form = [...document.forms].find((each) => each.dataset.live && [...each.elements].some(isChanged));
  if (form) refresh(form, null);
}

window.addEventListener("popstate", () => show(window.location.href, ["main"], "none"));
prepare();
catchUp();

/** The point of a plane is dragged: where it is dropped is put into the sliders of both axes, and the form is sent. */
/** @param {PointerEvent} event @param {SVGSVGElement} plane */
function drop(event, plane) {
  const inner = plane.querySelector(".frame"), point = plane.querySelector(".choice");
  if (!(inner instanceof SVGGraphicsElement) || !point) return;
  const box = inner.getBoundingClientRect(), [across, up] = (plane.dataset.plane ?? "").split(" ");
  const x = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1), y = Math.min(Math.max((event.clientY - box.top) / box.height, 0), 1);
  point.setAttribute("cx", String(600 * x));
  point.setAttribute("cy", String(320 * y));
  for (const [name, value] of [[across, x * Number(plane.dataset.right) + 0.5], [up, (1 - y) * Number(plane.dataset.top)]]) {
    const slider = document.querySelector(`input[data-axis="${name}"]`);
    if (slider instanceof HTMLInputElement) slider.value = String(value); // a slider rounds to its own steps
  }
  const slider = document.querySelector(`input[data-axis="${up}"]`);
  if (event.type === "pointerup" && slider instanceof HTMLInputElement && slider.form) refresh(slider.form, slider);
}

document.addEventListener("pointerdown", (event) => {
  const plane = event.target instanceof Element ? event.target.closest("svg[data-plane]") : null;
  if (!(plane instanceof SVGSVGElement)) return;
  event.preventDefault();
  const move = (/** @type {PointerEvent} */ moved) => drop(moved, plane);
  document.addEventListener("pointermove", move);
  document.addEventListener("pointerup", (up) => { document.removeEventListener("pointermove", move); drop(up, plane); }, { once: true });
});
