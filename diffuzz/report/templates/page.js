// Shows the report that the page carries. Everything is built from text nodes.
const report = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
const count = (n) => Number(n).toLocaleString("en");
const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;
const WORDS = { regression: "Regression", both: "In both", fixed: "Fixed" };
const FILTERS = [
  ["direction", "Direction", (item) => item.direction, (value) => WORDS[value] || value],
  ["kind", "Kind", (item) => item.kind, null],
  ["target", "Target", (item) => item.target, null],
  ["arch", "Architecture", (item) => item.arch, null],
];

function shown(value) {
  if (value === null || value === undefined) return "none";
  if (Array.isArray(value)) return `[${value.map(shown).join(", ")}]`;
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function number(value) {
  if (typeof value !== "number") return shown(value);
  if (Number.isInteger(value)) return count(value);
  return Math.abs(value) >= 1e6 || Math.abs(value) < 1e-3 ? value.toExponential(3) : String(+value.toPrecision(4));
}

function facts(pairs) {
  return pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([label, value]) => [make("dt", null, label), make("dd", null, value)]);
}

function table(columns, rows, name) {
  const cells = (row) => row.map((cell, k) => make("td", {
    class: columns[k].number ? "n" : null, "data-label": columns[k].label,
  }, cell));
  return make("table", { class: name || "stack" },
    make("thead", null, make("tr", null, columns.map((column) =>
      make("th", { class: column.number ? "n" : null, scope: "col" }, column.label)))),
    make("tbody", null, rows.map((row) => make("tr", null, cells(row)))));
}

const text = (label) => ({ label });
const figure = (label) => ({ label, number: true });

function header() {
  const said = report.headline;
  const asks = report.findings.filter((item) => !item.is_known);
  const worst = ["regression", "both", "fixed"].find((name) => asks.some((item) => item.direction === name));
  const judged = report.targets.some((item) => item.verdicts.agree + item.verdicts.differ > 0);
  document.querySelector(".top").classList.add(worst || (judged ? "clean" : "nothing"));
  at("headline").textContent = said.charAt(0).toUpperCase() + said.slice(1);
  document.title = `diffuzz: ${said}`;
  const pairs = [["Baseline", report.names.baseline], ["Candidate", report.names.candidate],
    ["Seed", report.seed], ["Started", report.started.replace("T", " ").replace("+00:00", " UTC")]];
  at("versus").append(...pairs.map(([label, value]) => make("div", null, make("dt", null, label), make("dd", null, value))));
}

function overview() {
  const total = { cases: 0, agree: 0, differ: 0, unknown: 0 };
  for (const item of report.targets) {
    total.cases += item.cases;
    for (const name of ["agree", "differ", "unknown"]) total[name] += item.verdicts[name];
  }
  const untested = report.targets.filter((item) => !item.cases).length;
  const tiles = [["cases", "cases run", total.cases], ["agree", "agree", total.agree], ["differ", "differ", total.differ],
    ["unknown", "could not tell", total.unknown], ["untested unknown", "targets not tested", untested]];
  at("tiles").append(...tiles.map(([name, label, n]) =>
    make("div", { class: `tile ${name} ${n ? "some" : ""}` }, make("b", null, count(n)), make("span", null, label))));
  const columns = [text("target"), text("arch"), text("executor"), text("slices"), figure("cases"), figure("agree"),
    figure("differ"), figure("unknown"), text("verdicts"), figure("seconds")];
  at("targets").append(table(columns, report.targets.map((item) => {
    const { agree, differ, unknown } = item.verdicts;
    return [make("strong", null, item.name), item.arch, item.executor, make("span", { class: "mono" }, slices(item.slices)),
      count(item.cases), count(agree), count(differ), count(unknown),
      item.cases ? meter([["agree", agree], ["differ", differ], ["unknown", unknown]], item.cases) : "not tested",
      count(Math.round(item.seconds * 10) / 10)];
  })));
  at("notes").append(...report.notes.map(([where, note]) => make("p", { class: "subtle" }, `${where}: ${note}`)));
}

function slices(pair) {
  const [one, other] = [pair.baseline, pair.candidate].map((hash) => hash ? hash.slice(0, 8) : "none");
  return pair.baseline && pair.baseline === pair.candidate ? `${one}, same` : `${one} → ${other}`;
}

/** The value of each axis by default, where the run says so. */
function defaults(finding) {
  const target = report.targets.find((item) => item.name === finding.target && item.coverage);
  return Object.fromEntries(target ? target.coverage.axes.map((axis) => [axis.name, axis.default]) : []);
}

function caseValues(finding) {
  const plain = defaults(finding), values = Object.entries(finding.case.values), off = finding.case.off_default;
  const moved = ([name, value]) => off ? off.includes(name) : name in plain && plain[name] !== shown(value);
  return make("div", null, make("div", { class: "values" }, values.map((pair) => make("code", {
    class: moved(pair) ? "value moved" : "value", title: moved(pair) && plain[pair[0]] ? `default: ${plain[pair[0]]}` : null,
  }, `${pair[0]} = ${shown(pair[1])}`))),
  make("p", { class: "subtle" }, `id ${finding.case.id}, seed ${finding.case.seed}` +
    (values.some(moved) ? "; outlined values are off their defaults" : "")));
}

function command(words) {
  const button = make("button", { type: "button" }, "Copy");
  const line = make("pre", null, words);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(words);
      button.textContent = "Copied";
    } catch {
      window.getSelection().selectAllChildren(line);
      button.textContent = "Selected";
    }
  });
  return make("div", { class: "command" }, line, button);
}

function measures(finding) {
  const both = finding.measure, names = ["max_ulp", "rms_ulp", "max_rel", "wrong", "total", "first", "expected", "actual"];
  const labels = ["largest error, ulp", "rms error, ulp", "largest relative error", "wrong elements", "elements judged",
    "first wrong index", "expected there", "actual there"];
  if (!both.baseline && !both.candidate) return null;
  const value = (side, name) => both[side] && both[side][name] !== null && both[side][name] !== undefined ? number(both[side][name]) : "–";
  return make("div", { class: "picture" }, make("h4", null, `How wrong: ${finding.aspect}`),
    table([text(""), figure("baseline"), figure("candidate")], names.map((name, k) =>
      [labels[k], value("baseline", name), value("candidate", name)]).filter((row) => row[1] !== "–" || row[2] !== "–"), "measures"));
}

function pictures(finding) {
  const box = make("div", { class: "pictures" }), errors = finding.errors;
  box.append(...[measures(finding)].filter(Boolean));
  if (!errors) return box;
  const bars = histogram(errors);
  if (bars) box.append(bars);
  const side = finding.direction === "fixed" ? "baseline" : "candidate", found = errors[side];
  if (found && found.note) box.append(make("p", { class: "note" }, found.note));
  if (found && found.maps.length) {
    box.append(make("div", { class: "picture" }, make("h4", null, `Where in the output of the ${side}, shape ${shown(found.shape)}`), heatKey(),
      make("div", { class: "pictures" }, found.maps.map((map) => heat(map, `${map.rows.split(":")[0]} by ${map.cols.split(":")[0]}`)))));
  }
  return box;
}

function findingCard(finding, open) {
  const place = finding.location, found = finding.culprit;
  const card = make("details", { class: `card finding ${finding.direction}`, id: finding.id, open: open ? "" : null },
    make("summary", null, make("div", { class: "line" },
      make("span", { class: `badge ${finding.direction}` }, WORDS[finding.direction]),
      make("h3", null, `${finding.kind} in ${finding.target} on ${finding.arch}`),
      make("span", { class: "soft" }, plural(finding.cases_hit, "case")),
      finding.is_known ? make("span", { class: "badge plain" }, "Known") : null,
      finding.follows ? make("span", { class: "badge plain" }, "Follows from another") : null),
    make("p", { class: "message" }, finding.message)));
  const rest = () => card.append(make("div", { class: "body" }, make("dl", { class: "facts" }, facts([
    ["Source", place ? make("code", null, `${place.file}:${place.line}${place.function ? ` in ${place.function}` : ""}`) : null],
    ["Diagnosis", finding.explanation ? `${finding.explanation.text} (${number(100 * finding.explanation.share)} % of wrong elements)` : null],
    ["Simplest case", caseValues(finding)],
    ["Backends reached", finding.backends.length ? finding.backends.join(", ") : null],
    ["Culprit", found ? [make("code", null, found.commit.slice(0, 12)), ` ${[found.date ? found.date.slice(0, 10) : "", found.subject, found.pr ? `#${found.pr}` : ""].filter(Boolean).join(" ")}`] : null],
    ["Follows from", finding.follows ? make("a", { href: `#${finding.follows}` }, finding.follows) : null],
    ["Corpus", finding.known ? finding.known.text : null],
    ["Shrunk", finding.shrinking],
    ["Signature", make("code", null, finding.signature)],
    ["Reproduce", command(finding.reproduce)],
  ])), pictures(finding)));
  // What a closed card holds is made when it is opened: a run may have hundreds.
  if (open) rest();
  else card.addEventListener("toggle", rest, { once: true });
  return card;
}

function findings() {
  const cards = report.findings.map((finding, k) => [finding, findingCard(finding, k === 0 || report.findings.length <= 3)]);
  at("list").append(...cards.map(([, card]) => card));
  if (!cards.length) {
    at("filters").hidden = true;
    at("list").append(make("p", { class: "card empty" }, "No findings."));
    return;
  }
  const wanted = new URLSearchParams(location.hash.slice(1)), fields = {};
  for (const [name, label, of, word] of FILTERS) {
    const values = [...new Set(report.findings.map(of))];
    const select = make("select", { id: `filter-${name}` }, make("option", { value: "" }, "all"),
      values.map((value) => make("option", { value }, word ? word(value) : value)));
    if (values.includes(wanted.get(name))) select.value = wanted.get(name);
    fields[name] = select;
    at("filters").append(make("label", null, label, select));
  }
  const search = make("input", { id: "filter-text", type: "search", placeholder: "message, file, value" });
  search.value = wanted.get("text") || "";
  const reset = make("button", { type: "reset" }, "Show all");
  at("filters").append(make("label", { class: "wide" }, "Text", search), reset);
  const apply = () => filter(cards, fields, search);
  at("filters").addEventListener("input", apply);
  at("filters").addEventListener("submit", (event) => event.preventDefault());
  at("filters").addEventListener("reset", () => setTimeout(apply));
  apply();
}

function filter(cards, fields, search) {
  const said = search.value.trim().toLowerCase(), state = new URLSearchParams();
  let left = 0;
  for (const [finding, card] of cards) {
    const fits = FILTERS.every(([name, , of]) => !fields[name].value || of(finding) === fields[name].value) &&
      (!said || JSON.stringify(finding).toLowerCase().includes(said));
    card.hidden = !fits;
    left += fits ? 1 : 0;
  }
  for (const [name, field] of [...Object.entries(fields), ["text", search]]) if (field.value) state.set(name, field.value);
  at("count").textContent = left === cards.length ? plural(left, "finding") : `${count(left)} of ${plural(cards.length, "finding")}`;
  // A page opened from disk may keep a filter in its address; elsewhere this can be refused.
  try {
    history.replaceState(null, "", state.toString() ? `#${state}` : location.pathname);
  } catch {
    return;
  }
}

function gaps() {
  const rows = [];
  for (const item of report.targets) {
    for (const [reason, n] of Object.entries(item.unknown_reasons)) {
      rows.push([item, item.cases ? plural(n, "case") : "not tested", reason]);
    }
  }
  const names = [...new Set(report.targets.map((item) => item.name))];
  for (const name of names) {
    const here = report.targets.filter((item) => item.name === name), run = here.map((item) => item.arch);
    for (const arch of new Set(here.flatMap((item) => item.target_archs || []))) {
      if (!run.includes(arch)) rows.push([{ name, arch }, "not run", "this architecture was not asked for"]);
    }
  }
  if (!rows.length) {
    at("gaps").append(make("p", { class: "card empty" }, "All that was asked for ran, and every case could be judged."));
    return;
  }
  at("gaps").append(make("div", { class: "card" }, rows.map(([item, what, why]) => make("div", { class: "gap" },
    make("strong", null, `${item.name} on ${item.arch}`), ` · ${what}: `, why))));
}

function axisBox(axis, cases) {
  return make("div", { class: "axis-box" }, make("h4", null, axis.name), axis.parts.map((part) => [
    axis.parts.length > 1 ? make("p", { class: "subtle" }, part.of) : null,
    make("table", null, make("tbody", null, part.values.map((row) => make("tr", { class: row.count ? null : "undrawn" },
      make("td", null, row.value),
      make("td", null, row.count ? meter([["differ", row.differ || 0], ["agree", row.count - (row.differ || 0)]], cases) : "not drawn"),
      make("td", { class: "n", title: row.differ ? `${row.differ} differ` : null }, count(row.count))))))]));
}

function coverage() {
  const spaces = report.targets.filter((item) => item.coverage && item.coverage.cases);
  if (!spaces.length) return;
  at("coverage").hidden = false;
  at("covered").append(make("div", { class: "key" }, make("span", null, make("i", { class: "agree-bg" }), "cases that do not differ"),
    make("span", null, make("i", { class: "differ-bg" }), "cases that differ")));
  spaces.forEach((item, k) => {
    const { axes, pairs, cases } = item.coverage;
    const missing = axes.flatMap((axis) => axis.parts.flatMap((part) => part.values)).filter((row) => !row.count).length;
    const more = pairs.total - pairs.drawn - pairs.missing.length;
    at("covered").append(make("details", { class: "card space", open: k === 0 ? "" : null },
      make("summary", null, `${item.name} on ${item.arch}: ${plural(cases, "case")}, ${plural(missing, "value")} never drawn`),
      make("div", { class: "inner" }, make("div", { class: "axes" }, axes.map((axis) => axisBox(axis, cases))),
        make("h4", { class: "pairs" }, `Pairs of options drawn together: ${count(pairs.drawn)} of ${count(pairs.total)}`),
        pairs.missing.length ? make("p", { class: "subtle" }, "Not drawn, or excluded by what the target allows:") : null,
        make("ul", { class: "chips" }, pairs.missing.map(([a, x, b, y]) => make("li", { class: "value mono" }, `${a}=${x}, ${b}=${y}`)),
          more > 0 ? make("li", { class: "soft" }, `and ${count(more)} more`) : null))));
  });
}

function timeline() {
  const entries = report.timeline;
  if (!entries || !entries.length) return;
  at("timeline").hidden = false;
  const key = [["right", "agree-bg"], ["wrong", "differ-bg"], ["could not tell", "unknown-bg"]];
  const measured = (value) => value === null || value === undefined ? "–" : typeof value === "object" && !Array.isArray(value) ?
    Object.entries(value).filter(([, part]) => part !== null).map(([name, part]) => `${name} ${number(part)}`).join(", ") : number(value);
  at("line").append(make("div", { class: "key" }, key.map(([label, name]) => make("span", null, make("i", { class: name }), label))),
    make("div", { class: "card line-box" }, dots(entries),
      make("p", { class: "subtle ends" }, make("span", null, day(entries[0])), make("span", null, day(entries[entries.length - 1])))),
    make("details", { class: "card space" }, make("summary", null, `All ${plural(entries.length, "commit")}`),
      make("div", { class: "inner" }, table([text("date"), text("commit"), text("subject"), text("verdict"), text("measure")], entries.map((entry) =>
        [entry.date.slice(0, 10), make("code", null, entry.commit.slice(0, 12)), entry.subject, entry.verdict, measured(entry.measure)])))));
}

header();
overview();
findings();
gaps();
coverage();
timeline();
at("environment").append(...facts(Object.entries(report.environment).map(([name, value]) => [name, value])).flat());
