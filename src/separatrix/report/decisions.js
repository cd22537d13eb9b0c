// What could be shipped: decisions, the chosen answer, and the scores of a trace. Folders of `separatrix benchmark` have none.
const ship = () => d().ship;
const offer = () => ship().answers[state.answer];
const promised = (a, m) => (a.promise[m] ? a.promise[m][0] : null);
const wrong = (a, m) => (a.promise[m] ? a.promise[m][1] : 0);
const SIGN = { plain: "*", drawn: "*", decisions: "D", score: "s", trained: "o", chosen: "^", constant: "X" };
function frame(box, height, left, label) {
  const width = Math.max(270, Math.round(box.clientWidth) || 640);
  return [width, height(width), node("svg", { viewBox: `0 0 ${width} ${height(width)}`, role: "group", "aria-label": label })];
}
function axes(svg, [x0, x1, y0, y1], px, py, xs, ys, xName, yName) {
  for (const [v, text] of xs) {
    svg.append(node("line", { class: "grid", x1: px(v), x2: px(v), y1: y1, y2: y0 }), node("text", { x: px(v), y: y0 + 17, "text-anchor": "middle" }, text));
  }
  for (const [v, text] of ys) {
    svg.append(node("line", { class: "grid", x1: x0, x2: x1, y1: py(v), y2: py(v) }), node("text", { x: x0 - 6, y: py(v) + 4, "text-anchor": "end" }, text));
  }
  svg.append(node("text", { class: "axis", x: (x0 + x1) / 2, y: y0 + 38, "text-anchor": "middle" }, xName),
    node("text", { class: "axis", transform: `translate(13 ${(y0 + y1) / 2}) rotate(-90)`, "text-anchor": "middle" }, yName));
}
/** A square-root scale across shows small gaps; what lies far below is counted, not drawn. */
function drawDecisions() {
  const box = at("decisions"), [x, y] = ship().axes, all = ship().answers;
  const [width, height, svg] = frame(box, (w) => Math.round(clamp(w * 0.68, 290, 520)), 72, `${NAMES[y]} against ${NAMES[x]}`);
  const edge = [72, width - 14, height - 46, 12], [x0, x1, y0, y1] = edge;
  const shown = all.map((a, i) => [a, i]).filter(([a]) => promised(a, x) !== null && promised(a, y) !== null && a.kind !== "drawn");
  const core = shown.filter(([a]) => ["plain", "chosen"].includes(a.kind) || (a.kind === "decisions" && a.maximize === y));
  const ends = core.flatMap(([a]) => [promised(a, y) - wrong(a, y), promised(a, y) + wrong(a, y)]);
  let [low, high] = [Math.min(...ends), Math.max(...ends)];
  const line = ship().limit ? ship().limit[0].map((v, i) => [v, ship().limit[1][i]]) : [];
  high = Math.max(high, ...line.map((c) => c[1]));
  for (const [a] of shown) { // the constant and the trained points, where they do not squeeze the rest
    const v = promised(a, y);
    if (a.kind === "decisions") continue;
    if (v < low && v > high - 2.5 * (high - Math.min(...ends))) low = v;
    if (v > high) high = v;
  }
  const pad = 0.06 * (high - low || 0.1);
  low -= pad; high += pad;
  const most = 1.06 * Math.max(1e-3, ...shown.filter(([a]) => promised(a, y) >= low).map(([a]) => promised(a, x) + (a.kind === "trained" ? 0 : wrong(a, x))));
  const least = 0.0012 * most, root = (v) => Math.sqrt(Math.max(v, 0) + least) - Math.sqrt(least);
  const px = (v) => x0 + 8 + (root(v) / root(most)) * (x1 - x0 - 8), py = (v) => y0 - ((v - low) / (high - low)) * (y0 - y1);
  axes(svg, edge, px, py, rootTicks(most, px), ticks(low, high, Math.max(3, height / 70)), NAMES[x], NAMES[y]);
  const inside = line.filter(([v]) => v < most);
  if (inside.length) {
    const last = line[inside.length] || [most, inside[inside.length - 1][1]];
    const corners = bent([...inside, [Math.min(last[0], most), last[1]]], true).filter((c) => c[1] >= low);
    const limit = node("polyline", { class: "limit", points: corners.map(([a, b]) => `${px(a)},${py(b)}`).join(" ") });
    limit.append(node("title", {}, "limit of these scores on these rows"));
    svg.append(limit);
  }
  for (const blind of [false, true]) {
    const own = shown.filter(([a]) => a.kind === "decisions" && a.maximize === y && a.blind === blind).map(([a]) => a)
      .concat(shown.filter(([a]) => a.kind === "plain" && a.blind === blind).map(([a]) => a)).sort((a, b) => promised(a, x) - promised(b, x));
    if (own.length > 1) svg.append(node("polyline", { points: own.map((a) => `${px(promised(a, x))},${py(promised(a, y))}`).join(" "), fill: "none", stroke: ink(own[0].colour), "stroke-width": 1.5, ...(blind ? { "stroke-dasharray": "5 3" } : {}) }));
  }
  let below = 0;
  const rank = { trained: 0, constant: 1, decisions: 2, plain: 3, chosen: 4 };
  const order = shown.slice().sort((p, q) => rank[p[0].kind] - rank[q[0].kind] || promised(p[0], x) - promised(q[0], x));
  for (const [a, i] of order) {
    const lost = promised(a, y) < low;
    if (lost && a.kind !== "constant") { below += 1; continue; }
    const [cx, cy] = [px(promised(a, x)), lost ? y0 - 7 : py(promised(a, y))];
    const r = { plain: 9, trained: 4, chosen: 7 }[a.kind] || 5.5;
    const g = node("g", { class: "point", tabindex: i === state.answer ? 0 : -1, role: "button", "data-answer": i, transform: `translate(${cx} ${cy})`,
      "aria-label": told(a).replaceAll("\n", "; "), "aria-pressed": i === state.answer });
    const off = a.kind === "decisions" && a.maximize !== y;
    if (!["trained", "constant"].includes(a.kind) && !off) {
      const bars = [["x", px(Math.max(promised(a, x) - wrong(a, x), 0)) - cx, px(Math.min(promised(a, x) + wrong(a, x), most)) - cx],
        ["y", py(promised(a, y) - wrong(a, y)) - cy, py(promised(a, y) + wrong(a, y)) - cy]];
      for (const [along, from, to] of bars) g.append(node("line", { [`${along}1`]: from, [`${along}2`]: to, stroke: ink(a.colour), "stroke-width": 1, opacity: 0.6 }));
    }
    const hollow = a.point.policy === "randomized" && a.kind === "trained" || off;
    g.append(node("path", { ...symbol(SIGN[a.kind], r), fill: hollow ? "var(--paper)" : ink(a.colour), stroke: hollow ? ink(a.colour) : "var(--paper)", "stroke-width": hollow ? 1.3 : 0.7, opacity: a.kind === "trained" ? 0.75 : 1 }),
      node("circle", { class: "halo", r: r + 4 }), node("circle", { r: 11, fill: "transparent" }));
    if (i === state.answer) g.append(node("circle", { class: "chosen", r: 11 }));
    svg.append(g);
    if (lost) svg.append(node("text", { x: cx + 12, y: cy + 4 }, `↓ ${a.name}: ${number(y, promised(a, y))}`));
  }
  box.replaceChildren(svg);
  const kinds = new Map();
  for (const [a] of shown) {
    const key = `${a.kind}${a.blind}${a.kind === "trained" ? a.point.method + a.point.policy : ""}${a.kind === "decisions" && a.maximize !== y}`;
    if (!kinds.has(key)) kinds.set(key, a);
  }
  const icon = (a) => node("svg", { viewBox: "-11 -7 22 14", "aria-hidden": "true" }, node("path", { ...symbol(SIGN[a.kind], a.kind === "trained" ? 4 : 6),
    fill: (a.kind === "trained" && a.point.policy === "randomized") || (a.kind === "decisions" && a.maximize !== y) ? "none" : ink(a.colour), stroke: ink(a.colour) }));
  const names = { plain: () => "plain model", constant: (a) => a.name, chosen: () => "trained, chosen for the usual budget",
    decisions: (a) => (a.maximize === y ? "solved for a budget" : "solved for u within v"), trained: (a) => `trained, ${a.point.policy === "randomized" ? "drawn" : "decided"}` };
  fill("decisions-legend", ...[...kinds.values()].map((a) => node("li", {}, icon(a), names[a.kind](a) + (a.blind ? ", without the group" : ""))),
    ...(line.length ? [node("li", {}, node("svg", { viewBox: "-11 -7 22 14", "aria-hidden": "true" }, node("line", { x1: -11, x2: 11, y1: 0, y2: 0, class: "limit", stroke: "var(--quiet)", "stroke-width": 2, "stroke-dasharray": "6 3" })), "limit of these scores on these rows")] : []),
    ...(below ? [node("li", { class: "quiet" }, `${below} point${below > 1 ? "s lie" : " lies"} further down`)] : []));
}
/** A gap of zero is said as what it is below by two errors: few rows cannot show more. */
const vanishes = (a, m) => METRIC[m].lower && a.promise[m] && promised(a, m) < 5e-5 && wrong(a, m) > 0;
const estimate = (a, m) => vanishes(a, m) ? `below ${(2 * wrong(a, m)).toPrecision(2)}` : `${number(m, promised(a, m))} ± ${wrong(a, m).toPrecision(2)}`;
const told = (a) => [a.name, ...METRICS.filter((m) => a.promise[m]).map((m) => `${SHORT[m]} ${estimate(a, m)}`),
  ...(a.note ? [a.note] : [])].join("\n");
/** The chosen answer beside the plain model, in numbers, rates and commands. */
function showAnswer() {
  const a = offer(), plain = ship().answers[ship().plain], columns = a === plain ? [["this", a]] : [["this", a], ["plain model", plain]];
  fill("answer-name", a.name);
  fill("answer-about", `${a.about[0].toUpperCase()}${a.about.slice(1)}${a.blind ? ", without the group" : ""}.` + (a.note ? ` Note: ${a.note}.` : ""));
  at("answer-about").className = a.always !== null && a.kind !== "constant" ? "note" : "quiet";
  const rows = [head("", ...columns.map(([name]) => name))];
  const cell = (k, m, name) => node("td", { class: "number", "data-column": name, "data-value": promised(k, m) ?? "", "data-error": k.promise[m] ? wrong(k, m) : "" },
    vanishes(k, m) ? estimate(k, m) : number(m, promised(k, m)), ...(k.promise[m] && wrong(k, m) && !vanishes(k, m) ? [node("span", { class: "sd" }, ` ± ${wrong(k, m).toPrecision(2)}`)] : []));
  const shown = ["accuracy", "balanced_accuracy", "auroc", "eo_gap", "violation", "utility"].filter((m) => columns.some(([, k]) => k.promise[m]));
  const constant = ship().answers.find((k) => k.kind === "constant");
  for (const m of shown) {
    const more = { accuracy: `${constant.name}: ${number("accuracy", promised(constant, "accuracy"))}`, eo_gap: a.kind === "score" ? "the largest over all thresholds" : "" }[m];
    rows.push(node("tr", { "data-metric": m }, node("th", { scope: "row" }, SHORT[m], ...(more ? [node("span", { class: "sd" }, more)] : [])), ...columns.map(([name, k]) => cell(k, m, name))));
    if (m === "eo_gap") rows.push(node("tr", { "data-metric": "noise" }, node("th", { scope: "row" }, "EO gap of pure chance"), ...columns.map(([, k]) => node("td", { class: "number" }, k.floor === null ? "–" : k.floor.toFixed(4)))));
  }
  fill("answer", ...rows);
  fill("answer-command", a.command || ""); fill("answer-python", a.python || "");
  at("answer-command").hidden = !a.command; at("answer-python").hidden = !a.python;
  fill("answer-ship", a.command || a.python ? "" : "This is here for comparison; nothing ships it.");
  showRatesOf(a, plain);
  for (const row of document.querySelectorAll("#offers tr[data-answer]")) row.setAttribute("aria-selected", +row.dataset.answer === state.answer);
}
function showRatesOf(a, plain) {
  const two = d().labels.length === 2, both = a.rates.length && a !== plain ? [["this", a], ["plain model", plain]] : [["plain model", plain]];
  fill("answer-rates-note", `${two ? `Share that gets ${d().labels[1]}` : "Share that gets the right label"}, by true label and group, with Wilson intervals at ${percent(data.confidence)}. ` +
    (a.rates.length ? (a === plain ? "" : "Upper bar: this; lower bar: the plain model.") : "A score decides nothing by itself; its curves are below."));
  const rows = [head("true label", "group", "rows", ...both.map(([name]) => name), "")];
  d().labels.forEach((label, y) => d().groups.forEach((group, g) => {
    const n = d().about.cells[y][g];
    if (!n) return;
    const pairs = both.map(([, k]) => [k.rates[y][g], wilson(k.rates[y][g], n, data.quantile)]);
    rows.push(rateRow(label, group, n, pairs, both.map(([name]) => name), [y, g]));
  }));
  fill("answer-rates", ...rows);
  at("answer-rates").parentElement.classList.toggle("tall", rows.length > 30);
}
/** The ROC curve of each group, of the plain score and of the separated one: apart, and together. */
function drawScores() {
  const scores = ship().answers.filter((a) => a.roc.length).sort((a, b) => a.blind - b.blind || (a.kind === "plain" ? -1 : 1));
  at("scores-section").hidden = !scores.length;
  if (!scores.length) return;
  const groups = ship().largest.filter((g) => scores.some((a) => a.roc[g].length));
  const colour = (g) => ink(ship().palette[groups.indexOf(g) % ship().palette.length]);
  fill("scores", ...scores.map((a) => {
    const size = 330, edge = [48, size - 8, size - 46, 8], [x0, x1, y0, y1] = edge;
    const px = (v) => x0 + v * (x1 - x0), py = (v) => y0 - v * (y0 - y1);
    const svg = node("svg", { viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": `ROC of each group: ${a.name}` });
    const marks = [0, 0.25, 0.5, 0.75, 1].map((v) => [v, String(v)]);
    axes(svg, edge, px, py, marks, marks, "false-positive rate", "true-positive rate");
    svg.append(node("line", { class: "cross", x1: px(0), y1: py(0), x2: px(1), y2: py(1) }));
    groups.forEach((g, k) => a.roc[g].length && svg.append(node("polyline", { points: a.roc[g].map(([u, v]) => `${px(u).toFixed(1)},${py(v).toFixed(1)}`).join(" "), fill: "none", stroke: colour(g), "stroke-width": 2, ...(k % 2 ? { "stroke-dasharray": "6 3" } : {}) })));
    const area = `AUROC ${estimate(a, "auroc")}`;
    const gap = a.kind === "score" ? `; EO gap at any threshold: ${estimate(a, "eo_gap")} or less` : "";
    return node("figure", {}, node("figcaption", {}, node("b", {}, a.kind === "plain" ? a.name.replace(/^plain( model)?/, "plain score") : a.name), node("br"), area + gap), svg);
  }));
  fill("scores-legend", ...groups.map((g, k) => node("li", {}, node("svg", { viewBox: "-11 -7 22 14", "aria-hidden": "true" },
    node("line", { x1: -11, x2: 11, y1: 0, y2: 0, stroke: colour(g), "stroke-width": 2.5, ...(k % 2 ? { "stroke-dasharray": "6 3" } : {}) })), d().groups[g])));
}
function choose(index) { state.answer = index; drawDecisions(); showAnswer(); }
function showShippable() {
  const there = !!ship();
  for (const part of document.querySelectorAll(".of-trace")) part.hidden = !there;
  for (const part of document.querySelectorAll(".of-benchmark")) part.hidden = there;
  if (!there) return;
  state.answer = ship().start;
  drawDecisions(); showAnswer(); drawScores();
}
