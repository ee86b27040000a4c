"use strict";
// Pictures as SVG. Colours are classes, so that they follow the scheme without being drawn again.
const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; text becomes text, never markup. */
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  return fill(element, attributes, children);
}

function draw(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined) {
      element.append(child instanceof Node ? child : String(child));
    }
  }
  return element;
}

/** Elements by size of error, both revisions side by side, on a logarithmic scale. */
function histogram(errors) {
  const sides = ["baseline", "candidate"].filter((side) => errors[side] && errors[side].histogram.length);
  if (!sides.length) return null;
  const labels = [];
  for (const side of sides) {
    for (const bin of errors[side].histogram) if (!labels.includes(bin.label)) labels.push(bin.label);
  }
  // The bins of the longer histogram are in order; "not finite" is the last of either.
  labels.sort((one, other) => rank(one) - rank(other));
  const counts = sides.map((side) => labels.map((label) => {
    const bin = errors[side].histogram.find((item) => item.label === label);
    return bin ? bin : { count: 0, wrong: 0 };
  }));
  const most = Math.max(1, ...counts.flat().map((bin) => bin.count));
  const bar = sides.length > 1 ? 11 : 16, step = bar * sides.length + 8, left = 46, high = 150, top = 8;
  const width = left + Math.max(labels.length * step, 220) + 8, foot = 62;
  const height = (n) => n ? Math.max(2, high * Math.log10(1 + n) / Math.log10(1 + most)) : 0;
  const svg = draw("svg", {
    viewBox: `0 0 ${width} ${top + high + foot}`, width, role: "img",
    "aria-label": `Histogram of the error in ${errors[sides[0]].unit}: ` + sides.map((side, k) =>
      `${side} ` + labels.map((label, i) => `${label}: ${counts[k][i].count}`).join(", ")).join("; "),
  });
  for (let power = 1; power <= most; power *= 10) {
    const y = top + high - height(power);
    svg.append(draw("line", { x1: left, x2: width, y1: y, y2: y, class: "axis" }),
      draw("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, power.toLocaleString("en")));
  }
  labels.forEach((label, i) => {
    sides.forEach((side, k) => {
      const bin = counts[k][i], tall = height(bin.count);
      const said = `${side}, ${label}: ${bin.count.toLocaleString("en")} elements, ${bin.wrong.toLocaleString("en")} of them wrong`;
      svg.append(draw("rect", {
        x: left + 4 + i * step + k * bar, y: top + high - tall, width: bar - 1, height: tall, class: `${side}-bg`,
      }, draw("title", null, said)));
    });
    const x = left + 4 + i * step + step / 2 - 4, y = top + high + 12;
    svg.append(draw("text", { x, y, "text-anchor": "end", transform: `rotate(-45 ${x} ${y})` }, label));
  });
  svg.append(draw("line", { x1: left, x2: width, y1: top + high, y2: top + high, class: "axis" }));
  return make("figure", { class: "picture histogram" }, make("h4", null, `Error, in ${errors[sides[0]].unit}`),
    make("div", { class: "key" }, sides.map((side) => make("span", null, make("i", { class: `${side}-bg` }), side))),
    make("div", { class: "plot", tabindex: 0, role: "group", "aria-label": "Histogram" }, svg),
    make("figcaption", null, "Elements by distance from the float64 truth, on a logarithmic scale."));
}

function rank(label) {
  if (label === "not finite") return Infinity;
  const [base, power] = label.replace(/[^0-9.^]/g, "").split("^").map(Number);
  const number = power === undefined ? base : base ** power;
  return label.startsWith(">") ? number * 2 : number;
}

/** One error map: a cell for each character, cells of one level joined into one path. */
function heat(map, title) {
  const rows = map.cells, tall = rows.length, wide = Math.max(1, ...rows.map((row) => row.length));
  const [across, down] = [[360, wide], [300, tall]].map(([room, n]) => Math.max(4, Math.min(18, Math.floor(room / n))));
  const width = wide * across, height = tall * down;
  const paths = {};
  rows.forEach((row, y) => {
    for (let x = 0; x < row.length;) {
      let end = x + 1;
      while (end < row.length && row[end] === row[x]) end += 1;
      const level = /[0-9]/.test(row[x]) ? `h${row[x]}` : "hx";
      paths[level] = (paths[level] || "") + `M${x * across} ${y * down}h${(end - x) * across}v${down}h${(x - end) * across}z`;
      x = end;
    }
  });
  const flat = rows.join(""), wrong = [...flat].filter((cell) => cell > "0" && cell <= "9").length;
  const svg = draw("svg", {
    viewBox: `-1 -1 ${width + 2} ${height + 2}`, width: Math.max(width + 2, 40), role: "img", "shape-rendering": "crispEdges",
    "aria-label": `${title}: ${wrong} of ${flat.length} cells hold wrong elements`,
  }, Object.entries(paths).map(([level, d]) => draw("path", { d, class: level })),
  draw("rect", { x: -.5, y: -.5, width: width + 1, height: height + 1, class: "frame" }));
  return make("figure", { class: "picture map" }, make("h4", null, title), svg,
    make("figcaption", null, `down: ${map.rows}; across: ${map.cols}`));
}

function heatKey() {
  return make("div", { class: "key" }, make("span", null, make("i", { class: "h0" }), "all right"),
    make("span", null, make("span", { class: "ramp" }, [1, 2, 3, 4, 5, 6, 7, 8, 9].map((k) => make("i", { class: `h${k}` }))),
      "share of wrong elements, to all"),
    make("span", null, make("i", { class: "hx frame" }), "not judged"));
}

/** Verdicts as one bar. */
function meter(parts, total) {
  const bar = make("span", { class: "meter", "aria-hidden": "true" });
  for (const [name, count] of parts) {
    if (!count) continue;
    const part = make("i", { class: `${name}-bg` });
    part.style.width = `${100 * count / Math.max(total, 1)}%`;
    bar.append(part);
  }
  return bar;
}

/** When a revision was made, or its name where it has no date. */
const day = (entry) => entry.date.slice(0, 10) || entry.commit;

/** Revisions in order, one dot each, coloured by verdict; they wrap like words. */
function dots(entries) {
  return make("div", {
    class: "dots", role: "img",
    "aria-label": `${entries.length} commits from ${day(entries[0])} to ${day(entries[entries.length - 1])}; the table below has each`,
  }, entries.map((entry) => make("i", {
    class: `dot ${verdictClass(entry.verdict)}`,
    title: `${day(entry)} ${entry.commit.slice(0, 12)} ${entry.subject}: ${entry.verdict}`,
  })));
}

function verdictClass(verdict) {
  if (["right", "agree", "good", "pass"].includes(verdict)) return "right";
  return ["wrong", "differ", "bad", "fail"].includes(verdict) ? "wrong" : "unknown";
}
