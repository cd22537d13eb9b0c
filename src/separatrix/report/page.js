"use strict";
// Every string of the data goes into the page as text (textContent, setAttribute), never as HTML.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const NAMES = {
    violation: "v = I(U;Z|Y), nats", utility: "u = I(U;Y), nats", eo_gap: "EO gap", accuracy: "accuracy", auroc: "AUROC",
  };
  const SHORT = { violation: "v", utility: "u", eo_gap: "EO gap", accuracy: "accuracy", auroc: "AUROC" };
  const METRICS = Object.keys(SHORT);
  const state = {
    dataset: 0, policy: "randomized", x: "violation", y: "utility", scope: "all", t: 0, pick: null,
    budget: { violation: null, eo_gap: null }, stretch: false, hidden: new Set(),
  };
  const at = (id) => document.getElementById(id);
  const d = () => data.datasets[state.dataset];
  for (const one of data.datasets) {
    for (const [policy, list] of Object.entries(one.points)) for (const p of list) p.policy = policy;
    one.points.both = [...one.points.randomized, ...one.points.deterministic];
  }
  const points = () => d().points[state.policy];
  const path = () => d().envelopes[state.policy][state.x][state.y][state.scope];
  const mixes = () => state.y !== "auroc"; // the AUROC of a mixture is not the mean of its parts

  // ---------------------------------------------------------------- small things
  const nats = (x) => (x === 0 || Math.abs(x) >= 0.001 ? x.toFixed(4) : x.toExponential(1));
  const number = (metric, x) =>
    x === null || x === undefined ? "–" : metric === "violation" || metric === "utility" ? nats(x) : x.toFixed(4);
  const percent = (x) => `${+(100 * x).toPrecision(3)} %`;
  const SPELLED = { randomized: "randomised", deterministic: "deterministic" };
  const called = (p) => `${d().series[p.series].label}, λ = ${+p.trade_off.toPrecision(4)}` +
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
    const policy = c ? (c.w > 0.5 ? c.b : c.a).policy : state.policy;
    return d().erm === null ? null : points().find((p) => p.series === d().erm && p.policy === policy) || null;
  }
  const mix = (c, get) => {
    const [p, q] = [get(c.a), get(c.b)];
    return p === null || q === null ? null : (1 - c.w) * p + c.w * q;
  };
  const value = (c, metric) => mix(c, (p) => p.mean[metric]);
  /** Standard deviation over the folds of the mixture itself: its value in a fold is the weighted mean. */
  function spread(c, metric) {
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

  // ---------------------------------------------------------------- the chart
  function symbol(kind, r) {
    const polygon = (n, turn, inner) => {
      const corners = [];
      for (let i = 0; i < n; i++) {
        const angle = turn + (2 * Math.PI * i) / n, radius = inner && i % 2 ? r * inner : r;
        corners.push(`${(radius * Math.sin(angle)).toFixed(2)},${(-radius * Math.cos(angle)).toFixed(2)}`);
      }
      return `M${corners.join("L")}Z`;
    };
    const thick = (s) => `M${-s},${-r}H${s}V${-s}H${r}V${s}H${s}V${r}H${-s}V${s}H${-r}V${-s}H${-s}Z`;
    const half = Math.PI / 2;
    const made = {
      s: polygon(4, Math.PI / 4), D: polygon(4, 0), "^": polygon(3, 0), v: polygon(3, Math.PI), ">": polygon(3, half),
      "<": polygon(3, -half), p: polygon(5, 0), h: polygon(6, 0), 8: polygon(8, Math.PI / 8), "*": polygon(10, 0, 0.42),
      P: thick(r / 3), X: thick(r / 3), x: thick(r / 7),
    }[kind];
    const d = made || `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0Z`;
    return { d, transform: kind === "X" || kind === "x" ? "rotate(45)" : "rotate(0)" };
  }
  function ticks(low, high, count) {
    const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((k) => k * power).find((s) => s >= rough * 0.999);
    const out = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) out.push(k * step);
    const digits = Math.max(0, Math.min(6, 1 - Math.floor(Math.log10(step) + 1e-9)));
    return out.map((x) => [x, x.toFixed(digits)]);
  }
  /** Ticks 1, 2, 5 × 10^k of a square-root scale, as many as have room. */
  function rootTicks(high, px) {
    const out = [[0, "0"]];
    for (let k = -7; k <= 1; k++) {
      for (const digit of [1, 2, 5]) {
        const v = digit * 10 ** k;
        if (v <= high && px(v) - px(out[out.length - 1][0]) > 58) out.push([v, v < 1e-3 ? v.toExponential(0) : String(+v.toPrecision(1))]);
      }
    }
    return out;
  }
  /** More corners on a straight line, for a scale that bends it. */
  function bent(corners, needed) {
    if (!needed) return corners;
    return corners.flatMap((c, i) => (i === 0 ? [c] : Array.from({ length: 24 }, (_, k) => {
      const w = (k + 1) / 24;
      return [0, 1].map((axis) => (1 - w) * corners[i - 1][axis] + w * c[axis]);
    })));
  }
  let scale = null; // of the last drawing: pixels from values and back
  function draw() {
    const box = at("plot");
    const width = Math.max(280, Math.round(box.clientWidth) || 640), height = Math.round(clamp(width * 0.72, 300, 560));
    const [left, right, top, bottom] = [62, 12, 12, 46];
    const { x, y } = state;
    const seen = points().map((p, i) => [p, i]).filter(([p]) =>
      !state.hidden.has(p.series) && p.mean[x] !== null && p.mean[y] !== null);
    const reach = (p, m, sign) => p.mean[m] + sign * (p.sd[m] || 0);
    let xMax = Math.max(1e-4, ...seen.map(([p]) => p.mean[x])) * 1.06;
    const limited = d().limit && !state.hidden.has("limit") && x === "violation" && y === "utility";
    const limit = limited ? limitUpTo(xMax) : [];
    const ys = seen.flatMap(([p]) => [reach(p, y, -1), reach(p, y, 1)]).concat(limit.map((q) => q[1]));
    let [yMin, yMax] = ys.length ? [Math.min(...ys), Math.max(...ys)] : [0, 1];
    if (y === "utility") yMin = Math.max(0, yMin);
    const pad = 0.05 * (yMax - yMin || 0.1);
    yMin -= pad; yMax += pad;
    const bend = state.stretch ? (v) => Math.sign(v) * Math.sqrt(Math.abs(v)) : (v) => v;
    const straight = state.stretch ? (b) => Math.sign(b) * b * b : (b) => b;
    const xMin = -(state.stretch ? 0.0009 : 0.02) * xMax;
    const px = (v) => left + ((bend(v) - bend(xMin)) / (bend(xMax) - bend(xMin))) * (width - left - right);
    const py = (v) => height - bottom - ((v - yMin) / (yMax - yMin)) * (height - top - bottom);
    scale = { x: (pixel) => straight(bend(xMin) + ((pixel - left) / (width - left - right)) * (bend(xMax) - bend(xMin))), width };
    const drawnLine = (corners) => bent(corners, state.stretch).map(([a, b]) => `${px(a)},${py(b)}`).join(" ");
    const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, role: "group",
      "aria-label": `${NAMES[y]} against ${NAMES[x]}, ${state.policy} policy, ${seen.length} points` });
    const marks = state.stretch ? rootTicks(xMax, px) : ticks(xMin, xMax, Math.max(3, width / 110));
    for (const [v, text] of marks) {
      svg.append(node("line", { class: "grid", x1: px(v), x2: px(v), y1: top, y2: height - bottom }),
        node("text", { x: px(v), y: height - bottom + 17, "text-anchor": "middle" }, text));
    }
    for (const [v, text] of ticks(yMin, yMax, Math.max(3, height / 70))) {
      svg.append(node("line", { class: "grid", x1: left, x2: width - right, y1: py(v), y2: py(v) }),
        node("text", { x: left - 7, y: py(v) + 4, "text-anchor": "end" }, text));
    }
    svg.append(node("text", { class: "axis", x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle" }, NAMES[x]),
      node("text", { class: "axis", transform: `translate(14 ${(top + height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, NAMES[y]));
    const most = state.budget[x];
    if (most !== null && most >= 0) {
      svg.append(node("rect", { class: "budget", x: px(0), y: top, width: Math.max(0, px(Math.min(most, xMax)) - px(0)), height: height - top - bottom }));
    }
    if (limit.length) {
      const line = node("polyline", { class: "limit", points: drawnLine(limit) });
      line.append(node("title", {}, "limit of post-processing"));
      svg.append(line);
    }
    for (const [k, s] of d().series.entries()) { // each path in the order of λ
      for (const policy of Object.keys(SPELLED)) {
        const own = seen.filter(([p]) => p.series === k && p.policy === policy).map(([p]) => [p.mean[x], p.mean[y]]);
        if (own.length > 1) svg.append(node("polyline", { points: drawnLine(own), fill: "none", stroke: ink(s.colour), "stroke-width": 1, opacity: 0.45 }));
      }
    }
    const line = path().map((i) => points()[i]);
    if (budgets().length) {
      for (const [i, from, to] of feasible()) {
        const end = line[Math.min(i + 1, line.length - 1)];
        const corner = (w) => [x, y].map((m) => (1 - w) * line[i].mean[m] + w * end.mean[m]);
        svg.append(node("polyline", { class: "feasible", points: drawnLine([corner(from), corner(to)]) }));
      }
    }
    svg.append(node("polyline", { class: "envelope", points: drawnLine(stairs(line, x, y)) }));
    const order = seen.slice().sort((a, b) => a[0].mean[x] - b[0].mean[x]);
    order.forEach(([p, i], place) => {
      const s = d().series[p.series], dim = budgets().length && !within(p) ? 0.3 : 1;
      const r = s.method === "erm" ? 9 : 5.5;
      const g = node("g", { class: "point", tabindex: place ? -1 : 0, role: "button", "data-point": i, opacity: dim,
        transform: `translate(${px(p.mean[x])} ${py(p.mean[y])})`, "aria-label": describe(p).replaceAll("\n", "; ") });
      for (const [m, along] of [[x, 1], [y, 0]]) {
        const sd = p.sd[m];
        if (!sd) continue;
        const [a, b] = along ? [px(p.mean[m] - sd) - px(p.mean[m]), px(p.mean[m] + sd) - px(p.mean[m])]
          : [py(p.mean[m] - sd) - py(p.mean[m]), py(p.mean[m] + sd) - py(p.mean[m])];
        g.append(node("line", { ...(along ? { x1: a, x2: b } : { y1: a, y2: b }), stroke: ink(s.colour), "stroke-width": 1, opacity: 0.4 }));
      }
      const outlined = state.policy === "both" && p.policy === "deterministic";
      const edge = outlined ? { stroke: "var(--ink)", "stroke-width": 2 }
        : { stroke: s.hollow ? ink(s.colour) : "var(--paper)", "stroke-width": s.hollow ? 1.5 : 0.7 };
      g.append(node("path", { ...symbol(s.marker, r), fill: s.hollow ? "var(--paper)" : ink(s.colour), ...edge }),
        node("circle", { class: "halo", r: r + 4 }), node("circle", { r: 11, fill: "transparent" }));
      svg.append(g);
    });
    const c = chosen();
    if (c && value(c, x) !== null && value(c, y) !== null) {
      const [cx, cy] = [px(value(c, x)), py(value(c, y))];
      svg.append(node("line", { class: "cross", x1: cx, x2: cx, y1: cy, y2: height - bottom }),
        node("line", { class: "cross", x1: left, x2: cx, y1: cy, y2: cy }),
        node("circle", { class: "chosen", cx, cy, r: 10, "pointer-events": "none" }));
    }
    box.replaceChildren(svg);
  }
  /** Corners of the drawn line: straight between points that can be mixed, steps otherwise. */
  function stairs(line, x, y) {
    const corners = line.map((p) => [p.mean[x], p.mean[y]]);
    return mixes() ? corners : corners.flatMap((c, i) => (i ? [[c[0], corners[i - 1][1]], c] : [c]));
  }
  function limitAt(v) {
    const { violation: xs, utility: us } = d().limit;
    if (v < xs[0]) return null;
    const i = xs.findIndex((x) => x > v);
    if (i < 0) return us[us.length - 1];
    return us[i - 1] + ((v - xs[i - 1]) / (xs[i] - xs[i - 1])) * (us[i] - us[i - 1]);
  }
  function limitUpTo(xMax) {
    const { violation: xs, utility: us } = d().limit;
    const inside = xs.map((x, i) => [x, us[i]]).filter(([x]) => x < xMax);
    return inside.length ? inside.concat([[xMax, limitAt(xMax)]]) : [];
  }
  function describe(p) {
    const rows = METRICS.map((m) => `${SHORT[m]} ${number(m, p.mean[m])}` + (p.sd[m] === null ? "" : ` ± ${number(m, p.sd[m])}`));
    if (p.policy === "deterministic" && p.threshold !== null) rows.push(`threshold ${p.threshold.toFixed(3)}`);
    rows.push(`${p.folds} runs` + (p.lost ? `, ${p.lost} lost` : ""));
    return [called(p), ...rows].join("\n");
  }

  // ---------------------------------------------------------------- the panels
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
    const rows = [head("", ...columns.map(([name]) => name))];
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
        if (k.w && m === "auroc") return ["–", null];
        const [v, sd] = [value(k, m), spread(k, m)];
        return [(k.w && m === "eo_gap" ? "≤ " : "") + number(m, v), v, v === null ? null : sd];
      });
    }
    row("certified v ≤", "upper", (k) => { const v = mix(k, (p) => p.upper); return [number("violation", v), v]; });
    if (d().limit) {
      row("u, share of the limit", "share", (k) => {
        const [v, best] = [value(k, "utility"), limitAt(value(k, "violation"))];
        return v === null || !best ? ["–", null] : [percent(v / best), v / best];
      });
    }
    fill("chosen", ...rows);
    fill("chosen-note", "± is one standard deviation over the folds. " +
      (single ? "" : "The coin is drawn apart from everything else and reported with the prediction, so v, u and accuracy are the weighted means; the EO gap is at most that; an AUROC of two models is not defined. ") +
      `The certified bound is of the out-of-fold predictions of all rows and holds for this point alone with at least ${percent(data.confidence)}; a point that was chosen by looking at many needs the --confidence of separatrix select.`);
  }
  const quoted = (s) => (/^[\w@%+=:,./-]+$/.test(s) ? s : `'${s.replaceAll("'", "'\\''")}'`);
  function showShip() {
    const c = chosen();
    const folder = at("folder").value || data.folder;
    let wanted = budgets();
    const up = (x) => { const p = 10 ** (2 - Math.floor(Math.log10(x))); return +(Math.ceil(x * p - 1e-9) / p).toPrecision(3); };
    if (!wanted.length && c) wanted = [[state.x, value(c, state.x) > 0 ? up(value(c, state.x)) : 0]];
    const flags = { violation: "--max-violation", eo_gap: "--max-eo-gap" }, names = { violation: "max_violation", eo_gap: "max_eo_gap" };
    const offer = !c ? null : c.w ? "mixture" : c.a.policy === "deterministic" ? "deterministic" : "single";
    const method = state.scope === "all" ? null : d().series[+state.scope].method;
    fill("command", ["separatrix select", quoted(folder), ...wanted.map(([m, most]) => `${flags[m]} ${most}`),
      `--maximize ${state.y}`, ...(offer ? [`--offer ${offer}`] : []), ...(method ? [`--method ${quoted(method)}`] : []), "--out model"].join(" "));
    const given = [...wanted.map(([m, most]) => `${names[m]}=${most}`), `maximize="${state.y}"`,
      ...(offer ? [`offer="${offer}"`] : []), ...(method ? [`method=${JSON.stringify(method)}`] : [])];
    fill("python", "import separatrix as sx\n" +
      `point = sx.load_frontier(${JSON.stringify(folder)}).select(${given.join(", ")})\n` +
      'point.predictor.save("model")');
    fill("ship-note", (data.models ? "The best point within the budget, as a folder without pickle, with its model card."
      : "The models of these runs were not kept. Trace the data first (separatrix trace … --out FOLDER), then:") +
      (offer === "mixture" && state.policy !== "both" ? " It mixes points of both policies: choose “both” above to see what it finds." : ""));
  }
  /** Wilson's score interval; a mean of numbers in [0, 1] varies at most as decisions do, so it is never too narrow for them. */
  function wilson(rate, n, z) {
    if (rate === null || !n) return null;
    const centre = (rate + (z * z) / (2 * n)) / (1 + (z * z) / n);
    const half = (z / (1 + (z * z) / n)) * Math.sqrt((rate * (1 - rate)) / n + (z * z) / (4 * n * n));
    return [Math.max(0, centre - half), Math.min(1, centre + half)];
  }
  function showRates() {
    const c = chosen();
    const erm = ermBeside(c);
    const z = data.quantile, two = d().labels.length === 2;
    const named = two ? `P(U = ${d().labels[1]} | Y, group)` : "P(U = Y | Y, group), the rate of the right label";
    fill("rates-note", `${named}, with Wilson intervals at ${percent(data.confidence)}, each on its own. Upper bar: the chosen point; lower bar: ERM. Out-of-fold predictions of all rows.`);
    const rows = [head("label", "group", "rows", "chosen", ...(erm ? ["ERM"] : []), "")];
    let empty = 0;
    d().labels.forEach((label, y) => d().groups.forEach((group, g) => {
      const n = d().about.cells[y][g];
      if (!n) { empty += 1; return; } // "What is not estimable" names them
      const show = (p) => {
        const rate = p && mix(p, (q) => (q.rates ? q.rates[y][g] : null));
        const own = p && (p.a.cells || p.b.cells); // a point that lost a fold was measured on fewer rows
        return [rate, rate === null ? null : wilson(rate, own ? own[y][g] : n, z)];
      };
      const both = [c && show(c), ...(erm ? [show(alone(erm))] : [])];
      const cell = (pair, column) => {
        const [rate, ends] = pair || [null, null];
        return node("td", { class: "number", "data-column": column, "data-value": rate ?? "", "data-low": ends ? ends[0] : "", "data-high": ends ? ends[1] : "" },
          ...(ends ? [`${rate.toFixed(3)} `, node("span", { class: "ends" }, `[${ends[0].toFixed(3)}, ${ends[1].toFixed(3)}]`)] : ["no rows"]));
      };
      const bar = node("svg", { viewBox: "0 0 100 20", preserveAspectRatio: "none", "aria-hidden": "true" });
      bar.append(node("line", { x1: 0, x2: 100, y1: 10, y2: 10, stroke: "var(--line)", "vector-effect": "non-scaling-stroke" }));
      both.forEach((pair, k) => {
        if (!pair || !pair[1]) return;
        const [rate, [low, high]] = pair, colour = k ? "var(--quiet)" : "var(--feasible)", at = k ? 14.5 : 5.5;
        bar.append(node("line", { x1: 100 * low, x2: Math.max(100 * high, 100 * low + 0.3), y1: at, y2: at, stroke: colour, "stroke-width": 3, "vector-effect": "non-scaling-stroke" }),
          node("line", { x1: 100 * rate, x2: 100 * rate, y1: at - 4.5, y2: at + 4.5, stroke: colour, "stroke-width": 2.5, "vector-effect": "non-scaling-stroke" }));
      });
      rows.push(node("tr", { "data-label": y, "data-group": g }, node("td", { class: "name" }, `Y\u00a0=\u00a0${label}`), node("td", { class: "name" }, group),
        node("td", { class: "number" }, n.toLocaleString("en")), cell(both[0], "chosen"), ...(erm ? [cell(both[1], "ERM")] : []),
        node("td", { class: "bar" }, bar)));
    }));
    fill("rates", ...rows);
    if (empty) at("rates-note").append(` ${empty} cells (label, group) have no rows and no rate.`);
    at("rates").parentElement.classList.toggle("tall", rows.length > 30);
  }
  function showAudit() {
    const beside = ermBeside(chosen()), policy = beside ? beside.policy : "deterministic", audit = d().audits[policy];
    at("audit-title").textContent = `Audit of ERM ([Z|X]), ${SPELLED[policy]} policy`;
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
      ...(d().limit ? [item("limit", "limit of post-processing", node("line", { ...stroke, stroke: "var(--quiet)", "stroke-dasharray": "6 3" }))] : []),
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

  // ---------------------------------------------------------------- what the reader does
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
    state.dataset = +at("dataset").value; state.scope = "all"; hideAblations(); showDataset(); reset();
  });
  for (const name of ["violation", "eo_gap"]) {
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
    const p = points()[+target.dataset.point], box = target.querySelector("path").getBoundingClientRect();
    tip.textContent = describe(p);
    tip.hidden = false;
    const x = clamp(box.right + window.scrollX + 10, 4, window.scrollX + document.documentElement.clientWidth - tip.offsetWidth - 8);
    tip.style.left = `${x}px`;
    tip.style.top = `${box.bottom + window.scrollY + 8}px`;
  }
  const pointOf = (event) => event.target.closest && event.target.closest(".point");
  const plot = at("plot");
  plot.addEventListener("pointerover", (event) => { const p = pointOf(event); if (p) showTip(p); });
  plot.addEventListener("pointerout", () => { tip.hidden = true; });
  plot.addEventListener("focusin", (event) => { const p = pointOf(event); if (p) showTip(p); });
  plot.addEventListener("focusout", () => { tip.hidden = true; });
  function pick(index) {
    const place = path().indexOf(index);
    state.pick = place < 0 ? alone(points()[index]) : null; // a point of the envelope moves the slider, another one is taken by itself
    if (place >= 0) state.t = place;
    show();
  }
  plot.addEventListener("keydown", (event) => {
    const p = pointOf(event);
    if (!p) return;
    const all = [...plot.querySelectorAll(".point")], here = all.indexOf(p);
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -here, End: all.length - 1 - here }[event.key];
    if (step !== undefined) {
      const next = all[clamp(here + step, 0, all.length - 1)];
      p.setAttribute("tabindex", -1); next.setAttribute("tabindex", 0); next.focus();
      event.preventDefault();
    } else if (event.key === "Enter" || event.key === " ") {
      const index = p.dataset.point;
      pick(+index);
      const again = plot.querySelector(`.point[data-point="${index}"]`);
      for (const q of plot.querySelectorAll(".point")) q.setAttribute("tabindex", q === again ? 0 : -1);
      again.focus();
      event.preventDefault();
    } else if (event.key === "Escape") tip.hidden = true;
  });
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
  let drawnWidth = 0; // drawing changes the height, and must not call itself
  new ResizeObserver(() => { if (plot.clientWidth !== drawnWidth) { drawnWidth = plot.clientWidth; draw(); } }).observe(plot);

  fill("dataset", ...data.datasets.map((one, i) => node("option", { value: i }, one.name)));
  at("dataset-box").hidden = data.datasets.length < 2;
  hideAblations();
  showDataset();
  reset();
})();
