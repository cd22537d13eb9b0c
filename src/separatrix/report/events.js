// What the reader does, and the start.
/** Repetitions of a path with other batch sizes are there, but not shown until they are ticked. */
function hideAblations() {
  state.hidden = new Set(d().series.flatMap((s, i) => (s.main ? [] : [i])));
}
function reset() { state.pick = null; state.t = Math.floor(path().length / 2); takeBudget(); show(); }
at("stretch").addEventListener("change", () => { state.stretch = at("stretch").checked; draw(); });
for (const input of document.querySelectorAll("#controls input[type=radio]")) {
  input.addEventListener("change", () => { state[input.name] = input.value; reset(); });
}
at("scope").addEventListener("change", () => { state.scope = at("scope").value; reset(); });
at("dataset").addEventListener("change", () => {
  state.dataset = +at("dataset").value; state.scope = "all"; hideAblations(); showDataset(); showShippable(); reset();
});
for (const name of BUDGETS) {
  at(`budget-${name}`).addEventListener("input", (event) => {
    const most = event.target.value === "" ? null : Number(event.target.value);
    state.budget[name] = most !== null && Number.isFinite(most) && most >= 0 ? most : null;
    takeBudget(); show();
  });
}
at("slider").addEventListener("input", () => { state.pick = null; state.t = Number(at("slider").value); show(); });
at("folder").value = data.folder;
at("folder").addEventListener("input", showShip);
at("controls").addEventListener("submit", (event) => event.preventDefault());

const tip = at("tip");
function showTip(target) {
  const box = target.querySelector("path").getBoundingClientRect();
  tip.textContent = target.dataset.answer === undefined ? describe(points()[+target.dataset.point]) : told(ship().answers[+target.dataset.answer]);
  tip.hidden = false;
  const x = clamp(box.right + window.scrollX + 10, 4, window.scrollX + document.documentElement.clientWidth - tip.offsetWidth - 8);
  tip.style.left = `${x}px`;
  tip.style.top = `${box.bottom + window.scrollY + 8}px`;
}
const pointOf = (event) => event.target.closest && event.target.closest(".point");
const plot = at("plot");
for (const chart of [plot, at("decisions")]) {
  for (const name of ["pointerover", "focusin"]) chart.addEventListener(name, (event) => { const p = pointOf(event); if (p) showTip(p); });
  for (const name of ["pointerout", "focusout"]) chart.addEventListener(name, () => { tip.hidden = true; });
}
function pick(index) {
  const place = path().indexOf(index);
  state.pick = place < 0 ? alone(points()[index]) : null; // a point of the envelope moves the slider, another one is taken by itself
  if (place >= 0) state.t = place;
  show();
}
/** Arrow keys walk from point to point, Enter takes one. */
function walk(chart, key, take) {
  chart.addEventListener("keydown", (event) => {
    const p = pointOf(event);
    if (!p) return;
    const all = [...chart.querySelectorAll(".point")], here = all.indexOf(p);
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -here, End: all.length - 1 - here }[event.key];
    if (step !== undefined) {
      const next = all[clamp(here + step, 0, all.length - 1)];
      p.setAttribute("tabindex", -1); next.setAttribute("tabindex", 0); next.focus();
      event.preventDefault();
    } else if (event.key === "Enter" || event.key === " ") {
      const index = p.dataset[key];
      take(+index);
      const again = chart.querySelector(`.point[data-${key}="${index}"]`);
      for (const q of chart.querySelectorAll(".point")) q.setAttribute("tabindex", q === again ? 0 : -1);
      again.focus();
      event.preventDefault();
    } else if (event.key === "Escape") tip.hidden = true;
  });
}
walk(plot, "point", pick);
walk(at("decisions"), "answer", choose);
at("decisions").addEventListener("pointerdown", (event) => { const p = pointOf(event); if (p) choose(+p.dataset.answer); });
for (const row of document.querySelectorAll("#offers tr[data-answer]")) row.querySelector("button").addEventListener("click", () => { choose(+row.dataset.answer); });
let dragging = false;
function follow(event) {
  const box = plot.querySelector("svg").getBoundingClientRect();
  const x = scale.x(((event.clientX - box.left) / box.width) * scale.width);
  const xs = path().map((i) => points()[i].mean[state.x]);
  if (!xs.length) return;
  let i = xs.findIndex((v) => v > x);
  if (i < 0) i = xs.length;
  state.pick = null;
  state.t = i === 0 ? 0 : i === xs.length ? xs.length - 1 : i - 1 + (x - xs[i - 1]) / (xs[i] - xs[i - 1]);
  show();
}
plot.addEventListener("pointerdown", (event) => {
  const p = pointOf(event);
  if (p) { pick(+p.dataset.point); return; }
  dragging = true; follow(event);
});
window.addEventListener("pointermove", (event) => { if (dragging) follow(event); });
for (const name of ["pointerup", "pointercancel"]) window.addEventListener(name, () => { dragging = false; });
const drawnWidth = new Map(); // drawing changes the height, and must not call itself; what was folded has a width when it opens
const resized = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.clientWidth === drawnWidth.get(target)) continue;
    drawnWidth.set(target, target.clientWidth);
    if (target === plot) draw(); else if (ship()) drawDecisions();
  }
});
for (const chart of [plot, at("decisions")]) resized.observe(chart);

fill("dataset", ...data.datasets.map((one, i) => node("option", { value: i }, one.name)));
at("dataset-box").hidden = data.datasets.length < 2;
hideAblations();
showDataset();
showShippable();
reset();
