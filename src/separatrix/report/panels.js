// Everything below and beside the chart.
function head(...texts) { return node("tr", {}, ...texts.map((t) => node("th", { scope: "col" }, t))); }
function showChosen() {
  const c = chosen();
  if (!c) {
    fill("mixture", "There is no point on this envelope."); fill("chosen"); fill("chosen-note");
    return;
  }
  const single = c.w === 0;
  fill("mixture", single ? `One predictor: ${called(c.a)}.`
    : `A revealed mixture: with probability ${percent(1 - c.w)} ${called(c.a)}, with probability ${percent(c.w)} ${called(c.b)}.`);
  at("mixture").dataset.weight = c.w;
  const erm = ermBeside(c);
  const columns = [["chosen", c]];
  if (!single) columns.push(["first", alone(c.a)], ["second", alone(c.b)]);
  if (erm) columns.push(["ERM", alone(erm)]);
  const rows = [head("", ...columns.map(([name]) => (name === "ERM" ? plainName() : name)))];
  const row = (name, id, cell) => rows.push(node("tr", { "data-metric": id }, node("th", { scope: "row" }, name),
    ...columns.map(([column, k]) => {
      const [text, exact, sd] = cell(k, column);
      return node("td", { class: "number", "data-column": column, "data-value": exact ?? "", "data-sd": sd ?? "" }, text,
        ...(sd === null || sd === undefined ? [] : [node("span", { class: "sd" }, ` ± ${number(id, sd)}`)]));
    })));
  if (!single) {
    row("probability", "weight", (k, column) => {
      const share = { chosen: null, ERM: null, first: 1 - c.w, second: c.w }[column];
      return share === null ? ["", null] : [percent(share), share];
    });
  }
  for (const m of METRICS) {
    row(SHORT[m], m, (k) => {
      if (k.w && !METRIC[m].mixes) return ["–", null];
      const [v, sd] = [value(k, m), spread(k, m)];
      return [(k.w && m === "eo_gap" ? "≤ " : "") + number(m, v), v, v === null ? null : sd];
    });
  }
  if (d().limit) {
    row("u, share of the limit", "share", (k) => {
      const [v, best] = [value(k, "utility"), limitAt(value(k, "violation"))];
      return v === null || !best ? ["–", null] : [percent(v / best), v / best];
    });
  }
  fill("chosen", ...rows);
  fill("chosen-note", (d().ship ? "± is the standard error on unseen rows. " : "± is one standard deviation over the folds. ") +
    (single ? "" : "The coin is drawn apart from everything else and reported with the prediction, so v, u and accuracy are the weighted means; the EO gap is at most that; an AUROC of two models is not defined. "));
}
const quoted = (s) => (/^[\w@%+=:,./-]+$/.test(s) ? s : `'${s.replaceAll("'", "'\\''")}'`);
function showShip() {
  const c = chosen();
  const folder = at("folder").value || data.folder;
  let wanted = budgets();
  const up = (x) => { const p = 10 ** (2 - Math.floor(Math.log10(x))); return +(Math.ceil(x * p - 1e-9) / p).toPrecision(3); };
  if (!wanted.length && c) wanted = [[state.x, value(c, state.x) > 0 ? up(value(c, state.x)) : 0]];
  const flag = (m) => `--max-${m.replaceAll("_", "-")}`;
  const method = state.scope === "all" ? null : d().series[+state.scope].method;
  fill("command", ["separatrix select", quoted(folder), ...wanted.map(([m, most]) => `${flag(m)} ${most}`),
    `--maximize ${state.y}`, ...(method ? [`--method ${quoted(method)}`] : []), "--out model"].join(" "));
  const given = [...wanted.map(([m, most]) => `max_${m}=${most}`), `maximize="${state.y}"`, ...(method ? [`method=${JSON.stringify(method)}`] : [])];
  fill("python", "import separatrix as sx\n" +
    `point = sx.Frontier.load(${JSON.stringify(folder)}).select(${given.join(", ")})\n` +
    'point.predictor.save("model")');
  fill("ship-note", (data.models ? "The best point within the budget, as a folder without pickle, with its model card."
    : "The models of these runs were not kept. Trace the data first (separatrix trace … --out FOLDER), then:") +
    (c && c.w && state.policy !== "both" ? " It mixes points of both policies: choose “both” above to see what it finds." : ""));
}
/** Wilson's score interval; a mean of numbers in [0, 1] varies at most as decisions do, so it is never too narrow for them. */
function wilson(rate, n, z) {
  if (rate === null || !n) return null;
  const centre = (rate + (z * z) / (2 * n)) / (1 + (z * z) / n);
  const half = (z / (1 + (z * z) / n)) * Math.sqrt((rate * (1 - rate)) / n + (z * z) / (4 * n * n));
  return [Math.max(0, centre - half), Math.min(1, centre + half)];
}
/** One label and group: rates [value, ends] of one or two models, and their bars. */
function rateRow(label, group, n, pairs, names, [y, g]) {
  const cell = (pair, column) => {
    const [rate, ends] = pair || [null, null];
    return node("td", { class: "number", "data-head": column, "data-column": column, "data-value": rate ?? "", "data-low": ends ? ends[0] : "", "data-high": ends ? ends[1] : "" },
      ...(ends ? [`${rate.toFixed(3)} `, node("span", { class: "ends" }, `[${ends[0].toFixed(3)}, ${ends[1].toFixed(3)}]`)] : ["no rows"]));
  };
  const bar = node("svg", { viewBox: "0 0 100 20", preserveAspectRatio: "none", "aria-hidden": "true" });
  bar.append(node("line", { x1: 0, x2: 100, y1: 10, y2: 10, stroke: "var(--line)", "vector-effect": "non-scaling-stroke" }));
  pairs.forEach((pair, k) => {
    if (!pair || !pair[1]) return;
    const [rate, [low, high]] = pair, colour = k ? "var(--quiet)" : "var(--feasible)", place = k ? 14.5 : 5.5;
    bar.append(node("line", { x1: 100 * low, x2: Math.max(100 * high, 100 * low + 0.3), y1: place, y2: place, stroke: colour, "stroke-width": 3, "vector-effect": "non-scaling-stroke" }),
      node("line", { x1: 100 * rate, x2: 100 * rate, y1: place - 4.5, y2: place + 4.5, stroke: colour, "stroke-width": 2.5, "vector-effect": "non-scaling-stroke" }));
  });
  return node("tr", { "data-label": y, "data-group": g }, node("td", { class: "name", "data-head": "true label" }, `Y\u00a0=\u00a0${label}`), node("td", { class: "name", "data-head": "group" }, group),
    node("td", { class: "number", "data-head": "rows" }, n.toLocaleString("en")), ...pairs.map((pair, k) => cell(pair, names[k])), node("td", { class: "bar" }, bar));
}
function showRates() {
  const c = chosen();
  const erm = ermBeside(c);
  const z = data.quantile, two = d().labels.length === 2;
  if (d().ship) return; // the rates of an answer stand beside it
  const named = two ? `P(U = ${d().labels[1]} | Y, group)` : "P(U = Y | Y, group), the rate of the right label";
  fill("rates-note", `${named}, with Wilson intervals at ${percent(data.confidence)}, each on its own. Upper bar: the chosen point; lower bar: ERM. Out-of-fold predictions of all rows.`);
  const rows = [head("label", "group", "rows", "chosen", ...(erm ? ["ERM"] : []), "")];
  let empty = 0;
  d().labels.forEach((label, y) => d().groups.forEach((group, g) => {
    const n = d().about.cells[y][g];
    if (!n) { empty += 1; return; } // the notes name them
    const show = (p) => {
      const rate = p && mix(p, (q) => (q.rates ? q.rates[y][g] : null));
      const own = p && (p.a.cells || p.b.cells); // a point that lost a fold was measured on fewer rows
      return [rate, rate === null ? null : wilson(rate, own ? own[y][g] : n, z)];
    };
    const both = [c && show(c), ...(erm ? [show(alone(erm))] : [])];
    rows.push(rateRow(label, group, n, both, ["chosen", ...(erm ? ["ERM"] : [])], [y, g]));
  }));
  fill("rates", ...rows);
  if (empty) at("rates-note").append(` ${empty} cells (label, group) have no rows and no rate.`);
  at("rates").parentElement.classList.toggle("tall", rows.length > 30);
}
function showAudit() {
  const beside = ermBeside(chosen()), policy = beside ? beside.policy : "deterministic", audit = d().audits[policy];
  at("audit-title").textContent = d().ship ? "The plain model" : `Audit of ERM ([Z|X]), ${SPELLED[policy]} policy`;
  fill("audit", ...(audit ? audit.measures : []).map((row) => node("tr", {}, node("th", { scope: "row" }, row.name),
    node("td", { class: "number" }, row.value), node("td", { class: "quiet" }, row.note))));
  fill("audit-notes", ...(audit ? audit.notes : ["ERM ([Z|X]) was not run."]).map((text) => node("p", { class: "note" }, text)));
}
function showDataset() {
  const about = d().about;
  at("title").textContent = d().name;
  const few = (names, what) => (names.length > 4 ? `${names.length} ${what}` : `${what} ${names.join(", ")}`);
  at("subtitle").textContent = `${about.rows.toLocaleString("en")} rows; ${few(d().labels, "labels")}; ${few(d().groups, "groups")}`;
  for (const card of document.querySelectorAll(".card")) card.hidden = +card.dataset.dataset !== state.dataset;
  fill("notes", ...d().notes.map((text) => node("li", {}, text)));
  fill("scope", ...[["all", "all methods together"], ...d().series.map((s, i) => [i, s.label])]
    .map(([v, text]) => node("option", { value: v }, text)));
  at("scope").value = state.scope;
}
function showLegend() {
  const item = (id, text, ...shapes) => {
    const icon = node("svg", { viewBox: "-11 -7 22 14", "aria-hidden": "true" }, ...shapes);
    if (id === null) return node("li", {}, node("label", {}, icon, text));
    const box = node("input", { type: "checkbox", value: id });
    box.checked = !state.hidden.has(id);
    box.addEventListener("change", () => { state.hidden[box.checked ? "delete" : "add"](id); draw(); });
    return node("li", {}, node("label", {}, box, icon, text));
  };
  const stroke = { x1: -11, x2: 11, y1: 0, y2: 0, "stroke-width": 2 };
  fill("legend",
    ...d().series.map((s, i) => item(i, s.label,
      node("path", { ...symbol(s.marker, 6), fill: s.hollow ? "none" : ink(s.colour), stroke: ink(s.colour) }))),
    ...(d().limit ? [item("limit", "limit of decisions", node("line", { ...stroke, stroke: "var(--quiet)", "stroke-dasharray": "6 3" }))] : []),
    item(null, "envelope", node("line", { ...stroke, stroke: "var(--ink)" })),
    ...(state.policy === "both" ? [item(null, "deterministic: outlined", node("circle", { r: 5, fill: "none", stroke: "var(--ink)", "stroke-width": 2 }))] : []));
}
function show() {
  const line = path(), slider = at("slider");
  slider.max = Math.max(0, line.length - 1);
  slider.step = mixes() ? 0.01 : 1;
  state.t = clamp(mixes() ? state.t : Math.floor(state.t + 1e-9), 0, Math.max(0, line.length - 1));
  slider.value = state.t;
  slider.disabled = line.length < 2;
  const c = chosen();
  slider.setAttribute("aria-valuetext", c ? `${SHORT[state.x]} ${number(state.x, value(c, state.x))}, ${SHORT[state.y]} ${number(state.y, value(c, state.y))}` : "no point");
  draw(); showLegend(); showBudget(); showChosen(); showShip(); showRates(); showAudit();
}
