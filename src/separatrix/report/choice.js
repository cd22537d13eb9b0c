// The data, the state of the page, the chosen point and the budgets.
// Every string of the data goes into the page as text (textContent, setAttribute), never as HTML.
const data = JSON.parse(document.getElementById("data").textContent);
const METRIC = Object.fromEntries(data.metrics.map((m) => [m.name, m]));
const NAMES = Object.fromEntries(data.metrics.map((m) => [m.name, m.axis]));
const SHORT = Object.fromEntries(data.metrics.map((m) => [m.name, m.label]));
const METRICS = Object.keys(METRIC);
const BUDGETS = METRICS.filter((m) => METRIC[m].lower);
const state = {
  dataset: 0, answer: 0, policy: "randomized", x: "violation", y: "utility", scope: "all", t: 0, pick: null,
  budget: Object.fromEntries(BUDGETS.map((m) => [m, null])), stretch: false, hidden: new Set(),
};
const plainName = () => (d().ship ? "plain model" : "ERM");
const at = (id) => document.getElementById(id);
const d = () => data.datasets[state.dataset];
for (const one of data.datasets) {
  for (const [policy, list] of Object.entries(one.points)) for (const p of list) p.policy = policy;
  one.points.both = [...one.points.randomized, ...one.points.deterministic];
}
const points = () => d().points[state.policy];
const path = () => d().envelopes[state.policy][state.x][state.y][state.scope];
const mixes = () => METRIC[state.y].mixes; // the AUROC of a mixture is not the mean of its parts

// ---------------------------------------------------------------- small things
const nats = (x) => (x === 0 || Math.abs(x) >= 5e-4 ? x.toFixed(4) : x.toExponential(1));
const number = (metric, x) =>
  x === null || x === undefined ? "–" : METRIC[metric].nats ? nats(x) : x.toFixed(4);
const percent = (x) => `${+(100 * x).toPrecision(3)} %`;
const SPELLED = { randomized: "randomised", deterministic: "deterministic" };
const called = (p) => `${d().series[p.series].label}, ${d().series[p.series].knob} = ${+p.trade_off.toPrecision(4)}` +
  (state.policy === "both" ? `, ${SPELLED[p.policy]}` : "");
const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
const mean = (xs) => xs.reduce((a, b) => a + b, 0) / xs.length;
const ink = (colour) => (colour === "#000000" ? "var(--ink)" : colour); // black must not vanish in the dark

function node(name, attributes, ...children) {
  const svg = ["svg", "g", "path", "line", "rect", "circle", "polyline", "text", "title"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  for (const child of children) made.append(child);
  return made;
}
const fill = (id, ...children) => at(id).replaceChildren(...children);

// ---------------------------------------------------------------- the chosen point
/** Two points and the weight of the second: a revealed mixture, or one point. */
function chosen() {
  if (state.pick !== null) return state.pick;
  const line = path();
  if (!line.length) return null;
  const i = Math.min(Math.floor(state.t + 1e-9), line.length - 1);
  const w = i < line.length - 1 ? clamp(state.t - i, 0, 1) : 0;
  const [a, b] = [points()[line[i]], points()[line[Math.min(i + 1, line.length - 1)]]];
  return w < 1e-9 ? { a, b: a, w: 0 } : { a, b, w };
}
const alone = (p) => ({ a: p, b: p, w: 0 });
/** ERM under the policy of the larger part of the chosen point. */
function ermBeside(c) {
  const policy = d().ship ? "deterministic" : c ? (c.w > 0.5 ? c.b : c.a).policy : state.policy; // a trace has one plain model: decided
  return d().erm === null ? null : d().points.both.find((p) => p.series === d().erm && p.policy === policy) || null;
}
const mix = (c, get) => {
  const [p, q] = [get(c.a), get(c.b)];
  return p === null || q === null ? null : (1 - c.w) * p + c.w * q;
};
const value = (c, metric) => mix(c, (p) => p.mean[metric]);
/** Standard deviation over the folds of the mixture itself: its value in a fold is the weighted mean. */
function spread(c, metric) {
  if (d().ship) return mix(c, (p) => p.sd[metric]); // standard errors of the promise; at most their weighted mean
  const [p, q] = [c.a.runs[metric], c.b.runs[metric]];
  if (p.length !== q.length || p.length < 2) return null;
  const runs = p.map((x, i) => (1 - c.w) * x + c.w * q[i]);
  const m = mean(runs);
  return Math.sqrt(runs.reduce((sum, x) => sum + (x - m) ** 2, 0) / (runs.length - 1));
}

// ---------------------------------------------------------------- budgets
const budgets = () => Object.entries(state.budget).filter(([, most]) => most !== null);
const within = (p) => budgets().every(([m, most]) => p.mean[m] !== null && p.mean[m] <= most + 1e-12);
/** For each segment of the envelope the weights that keep every budget: [segment, from, to]. */
function feasible() {
  const line = path().map((i) => points()[i]);
  if (!mixes() || line.length === 1) return line.flatMap((p, i) => (within(p) ? [[i, 0, 0]] : []));
  const parts = [];
  for (let i = 0; i + 1 < line.length; i++) {
    let [from, to] = [0, 1];
    for (const [m, most] of budgets()) {
      const [p, q] = [line[i].mean[m], line[i + 1].mean[m]];
      const room = most + 1e-12 - p;
      if (Math.abs(q - p) < 1e-15) { if (room < 0) to = -1; }
      else if (q > p) to = Math.min(to, room / (q - p));
      else from = Math.max(from, room / (q - p));
    }
    if (from <= to) parts.push([i, from, to]);
  }
  return parts;
}
const inScope = () => points().filter((p) => !p.lost && p.mean[state.y] !== null &&
  (state.scope === "all" ? d().series[p.series].main : p.series === +state.scope));
const better = (best, one) => (best === null || one.y > best.y + 1e-12 ? one : best);
/** The best single point within the budgets. */
function bestSingle() {
  return inScope().filter(within).map((p) => ({ ...alone(p), y: p.mean[state.y] })).reduce(better, null);
}
/** The best pair and weight within the budgets, over all pairs; with one budget it lies on an envelope. */
function bestPair() {
  const all = inScope();
  let best = bestSingle();
  if (!mixes()) return best;
  for (const a of all) {
    for (const b of all) {
      if (b.mean[state.y] <= a.mean[state.y]) continue; // as much as possible of the more useful one
      let [low, high] = [0, 1];
      for (const [m, most] of budgets()) {
        const slope = b.mean[m] - a.mean[m], room = most - a.mean[m];
        if (slope > 0) high = Math.min(high, room / slope);
        else if (slope < 0) low = Math.max(low, room / slope);
        else if (room < 0) high = -1;
      }
      if (low <= high) best = better(best, { a, b, w: high, y: (1 - high) * a.mean[state.y] + high * b.mean[state.y] });
    }
  }
  return best;
}
function takeBudget() {
  state.pick = null;
  if (!budgets().length) return;
  const best = bestPair(), parts = feasible();
  if (best === null) return;
  if (parts.length) { // on the envelope, if that is as good: then the slider follows
    const [i, , to] = parts[parts.length - 1];
    state.t = i + to;
    if (value(chosen(), state.y) >= best.y - 1e-9) return;
  }
  state.pick = { a: best.a, b: best.w ? best.b : best.a, w: best.w };
}
function showBudget() {
  const status = at("budget-status"), single = bestSingle(), c = chosen();
  status.className = "";
  if (!budgets().length) {
    status.textContent = "Fill in a box: the best point within it is chosen, and what keeps the budget is highlighted.";
    return;
  }
  const wanted = budgets().map(([m, most]) => `${SHORT[m]} ≤ ${most}`).join(" and ");
  if (!c || bestPair() === null) {
    const least = budgets().map(([m]) => `${SHORT[m]} ${number(m, Math.min(...inScope().map((p) => p.mean[m])))}`);
    status.className = "note";
    status.textContent = `Nothing here keeps ${wanted}. The smallest: ${least.join(", ")}.`;
    return;
  }
  const kept = budgets().every(([m, most]) => value(c, m) <= most + 1e-9);
  if (!kept) status.className = "note";
  status.textContent = `The chosen point ${kept ? "keeps" : "breaks"} ${wanted} on the mean over folds.` +
    (single ? ` Without mixing, the best is ${called(single.a)}: ${SHORT[state.y]} ${number(state.y, single.y)}.`
      : " No single model keeps it, only mixtures.");
}
