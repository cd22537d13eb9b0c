// The chart.
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
  const [left, right, top, bottom] = [74, 12, 12, 46];
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
    line.append(node("title", {}, "limit of decisions"));
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
      const inside = along ? (v) => clamp(px(v), left, width - right) : (v) => clamp(py(v), top, height - bottom);
      const [a, b] = [-1, 1].map((sign) => inside(p.mean[m] + sign * sd) - inside(p.mean[m]));
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
