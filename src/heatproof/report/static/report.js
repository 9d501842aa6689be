"use strict";

// Sorting: the first click on a heading puts the best on top (words rise); empty cells stay last.
function sortTable(table, column, reversed) {
  const heads = [...table.tHead.rows[0].cells], head = heads[column];
  const isText = head.dataset.kind === "text";
  const rising = (isText || head.dataset.better === "low") !== reversed;
  for (const other of heads) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", rising ? "ascending" : "descending");
  const key = row => {
    const cell = row.cells[column];
    return isText ? (cell.dataset.value ?? cell.textContent.trim()) : (cell.dataset.value ?? "");
  };
  const compare = (a, b) => isText ? a.localeCompare(b) : Number(a) - Number(b);
  const rows = [...table.tBodies[0].rows].map(row => [key(row), row]);
  rows.sort(([a], [b]) => a === "" || b === "" ? (a === "") - (b === "") : rising ? compare(a, b) : compare(b, a));
  table.tBodies[0].append(...rows.map(([, row]) => row));
}

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells], name = table.dataset.state;
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const again = head.hasAttribute("aria-sort") && head.dataset.reversed !== "yes";
      for (const other of heads) delete other.dataset.reversed;
      if (again) head.dataset.reversed = "yes";
      sortTable(table, column, again);
      if (name) pageState.write({ [`${name}.sort`]: (again ? "-" : "") + (head.dataset.column ?? column) });
    });
  });
}

// The sorting that the address asks for, if it does.
function sortAsAsked(table, asked) {
  const heads = [...table.tHead.rows[0].cells];
  const reversed = asked.startsWith("-"), wanted = reversed ? asked.slice(1) : asked;
  const column = heads.findIndex((head, place) => wanted !== "" && (head.dataset.column ?? String(place)) === wanted);
  for (const head of heads) { delete head.dataset.reversed; head.removeAttribute("aria-sort"); }
  if (column < 0) return false;
  if (reversed) heads[column].dataset.reversed = "yes";
  sortTable(table, column, reversed);
  return true;
}

// What explaining costs, by column: its place in the data, and how it is shown.
const COSTS = {
  passes: [2, passes => passes.toFixed(0)],
  ms: [3, seconds => (1000 * seconds).toFixed(2)],
  mb: [4, bytes => (bytes / 1e6).toFixed(1)],
};

// The leaderboard: any reading of it, drawn anew from the page's data.
class Leaderboard {
  constructor(section) {
    this.section = section;
    this.name = section.dataset.name;
    this.table = section.querySelector("table.board");
    this.selects = [...section.querySelectorAll("select[data-axis]")];
    this.data = JSON.parse(document.getElementById(`${this.name}-readings`).textContent);
    this.places = new Map();
    const lines = this.data.lines;
    for (const name of Object.keys(lines)) lines[name] = unpacked(lines[name]);
    lines.metric.forEach((_, at) => this.places.set(this.key(at), at));
    this.rows = [...this.table.tBodies[0].rows];
    section.querySelector(".filters")?.removeAttribute("hidden");
    for (const select of this.selects)
      select.addEventListener("change", () => {
        pageState.write({ [`${this.name}.${select.dataset.axis}`]: select.value });
        this.show(pageState.read());
      });
  }

  key(at) {
    const { metric, ground_truth, pooling, subset, target, model, explainer } = this.data.lines;
    return [metric, ground_truth, pooling, subset, target, model, explainer].map(column => column[at]).join();
  }

  // Show what the address asks for.
  show(state) {
    const asked = {};
    for (const select of this.selects) {
      const wanted = state[`${this.name}.${select.dataset.axis}`] ?? "";
      select.value = [...select.options].some(option => option.value === wanted) ? wanted : "";
      if (select.value) asked[select.dataset.axis] = select.value;
    }
    if (Object.keys(asked).length) this.draw(asked);
    else this.table.tBodies[0].replaceChildren(...this.rows);
    const ranks = asked.metric ?? Object.keys(this.data.better_high).find(name => name in this.data.shown);
    const variant = Boolean(asked.ground_truth ?? asked.pooling);  // then one column of a metric shows it
    for (const head of this.table.tHead.rows[0].cells) {
      const of = head.dataset.metric, other = of && asked.metric && of !== asked.metric;
      this.hideColumn(head.cellIndex, Boolean(other || (variant && "beside" in head.dataset)));
      for (const name of head.querySelectorAll(".of")) name.hidden = variant;
    }
    const about = this.section.querySelector(".ranked-by");
    if (about) about.textContent = this.data.titles[ranks];
    if (!sortAsAsked(this.table, state[`${this.name}.sort`] ?? "") && asked.metric)
      sortAsAsked(this.table, `m:${asked.metric}`);
  }

  hideColumn(column, hidden) {
    for (const row of this.table.rows) if (row.cells[column]) row.cells[column].hidden = hidden;
  }

  // The line of the data for a metric under what is asked; what a metric does not have is as shown first.
  find(metric, asked, target, explainer) {
    const [truth, pooling] = this.data.shown[metric] ?? ["", ""];
    return this.place(metric, asked.ground_truth ?? truth, asked.pooling ?? pooling, asked, target, explainer)
      ?? this.place(metric, truth, pooling, asked, target, explainer);
  }

  place(metric, truth, pooling, asked, target, explainer) {
    const data = this.data, code = (axis, value) => data[axis].indexOf(value);
    const subset = asked.subset ?? "all", model = asked.model ?? data.model_shown;
    return this.places.get([code("metric", metric), code("ground_truth", truth), code("pooling", pooling),
      code("subset", subset), code("target", target), code("model", model), explainer].join());
  }

  draw(asked) {
    const data = this.data, ranks = asked.metric ?? Object.keys(data.better_high).find(name => name in data.shown);
    const heads = [...this.table.tHead.rows[0].cells];
    const lines = [];
    data.explainers.forEach(([short, full, baseline], explainer) => {
      for (const target of data.target) {
        if (asked.target && target !== "" && target !== asked.target) continue;
        const found = {};
        for (const metric of Object.keys(data.shown)) {
          const at = this.find(metric, asked, target, explainer);
          if (at !== undefined && this.number("mean", at) !== null) found[metric] = at;
        }
        if (Object.keys(found).length) lines.push({ short, full, baseline, target, explainer, found, asked });
      }
    });
    const sign = data.better_high[ranks] ? -1 : 1;
    const score = line => ranks in line.found ? sign * this.number("whole", line.found[ranks]) : Infinity;
    lines.sort((a, b) => a.baseline - b.baseline || score(a) - score(b));
    for (const line of lines) {
      const rivals = lines.filter(other => !other.baseline && other.target === line.target && ranks in other.found);
      line.rank = line.baseline || !(ranks in line.found) ? null
        : 1 + rivals.filter(other => score(other) < score(line)).length;
      line.judged = this.judged(ranks, asked, line);
    }
    this.table.tBodies[0].replaceChildren(...lines.map(line => this.row(line, heads, ranks)));
  }

  // What a contest says of a line: there is one for every metric, truth and pooling over all cases and networks, and
  // for those that are shown first one for each part of the cases and each network.
  judged(metric, asked, line) {
    const [truth, pooling] = this.data.shown[metric] ?? ["", ""];
    const wanted = [metric, asked.ground_truth ?? truth, asked.pooling ?? pooling, asked.subset ?? "all", asked.model ?? ""];
    for (const [of, t, p, target, subset, model, entrants] of this.data.contests) {
      if ([of, t, p, subset, model].some((value, place) => value !== wanted[place])) continue;
      if (line.target && target !== line.target) continue;
      const mine = entrants.find(entrant => entrant[0] === line.explainer && entrant[1] === line.target);
      if (mine) return mine;
    }
    return null;
  }

  number(name, at) {
    const column = this.data.lines[name];
    if (name === "n") return column[at];
    if (name === "whole" && (column?.[at] ?? null) === null) return this.number("mean", at);
    return column === undefined || column[at] === null ? null : column[at] / this.data.scale;
  }

  row(line, heads, ranks) {
    const row = document.createElement("tr");
    if (line.baseline) row.className = "baseline";
    for (const head of heads) row.append(this.cell(line, head.dataset.column, ranks));
    return row;
  }

  cell(line, column, ranks) {
    const cell = document.createElement(column === "explainer" ? "th" : "td");
    const [kind, metric] = column.includes(":") ? column.split(/:(.*)/) : [column, ranks];
    const at = kind === "b" ? this.place(...metric.split(":"), line.asked, line.target, line.explainer) : line.found[metric];
    const say = (text, value, title) => {
      cell.textContent = text;
      cell.dataset.value = value ?? "";
      if (title) cell.title = title;
    };
    if (kind === "explainer") this.nameCell(cell, line);
    else if (kind === "target") {
      cell.className = "word";
      if (line.target) {
        const mark = document.createElement("span");
        mark.className = `key ${line.target}`;
        cell.append(mark);
      }
      cell.append(line.target);
    } else if (kind === "rank") {
      const [, , , rank, low, high] = line.judged ?? [];
      const known = rank ?? line.rank;
      say(known === null ? "" : `${known}`, known);
      if (known !== null && low !== undefined && low !== null && low !== high) cell.append(small(`${low} to ${high}`));
    } else if (kind === "groups") {
      say(line.judged?.[2] ?? "", undefined);
      cell.dataset.value = line.judged?.[2] ?? "";
      cell.className = "word";
    } else if (kind in COSTS) {
      const [place, shown] = COSTS[kind];
      const cost = this.data.costs.find(([explainer, target]) => explainer === line.explainer && target === line.target);
      const value = cost?.[place] ?? null;
      say(value === null ? "–" : shown(value), value);
    } else if (at === undefined || (kind === "b" && this.number("mean", at) === null)) say("mb".includes(kind) ? "–" : "", "");
    else if (kind === "m" || kind === "b") this.scoreCell(cell, say, at);
    else if (kind === "p" || kind === "e") {
      cell.className = kind === "p" ? "paper" : "elsewhere";
      const value = this.number(kind === "p" ? "reference" : "elsewhere", at);
      say(value === null ? "" : (100 * value).toFixed(1), value);
    } else if (kind === "skill") {
      const [skill, low, high] = ["skill", "skill_low", "skill_high"].map(name => this.number(name, at));
      say(skill === null ? "" : inHundredths(skill), skill);
      if (low !== null && high !== null) cell.append(small(`${inHundredths(low)} to ${inHundredths(high)}`));
    } else if (kind === "n") say(String(this.number("n", at)), this.number("n", at));
    else if (kind === "undefined") {
      const share = this.number("undefined", at) ?? 0;
      say(share ? inPercent(share) : "", share);
    }
    return cell;
  }

  nameCell(cell, line) {
    cell.scope = "row";
    cell.dataset.value = line.short;
    if (line.short !== line.full) cell.title = line.full;
    for (const piece of line.short.split(/(?<=[,:_])/)) cell.append(piece, document.createElement("wbr"));
    if (line.judged?.[6]) cell.append(small(line.judged[6]));
  }

  scoreCell(cell, say, at) {
    const [mean, low, high, undef, whole] = ["mean", "low", "high", "undefined", "whole"].map(name => this.number(name, at));
    const bounds = low !== null && high !== null;
    const silence = undef ? ` (${inPercent(undef)} undefined)` : "";
    const about = bounds ? `${(100 * low).toFixed(1)} to ${(100 * high).toFixed(1)}, ` : "";
    const around = bounds ? ` ${aroundText(100 * (mean - low), 100 * (high - mean))}` : "";
    say(`${(100 * mean).toFixed(1)}${around}`, whole, `${about}n = ${this.number("n", at)}${silence}`);
    if (undef) cell.append(small(`${inPercent(undef)} undefined`));
  }
}

// What stands below a number, or a name, in smaller letters.
function small(text) {
  const element = document.createElement("small");
  element.textContent = text;
  return element;
}

// A column of the data, which may have come as runs: a value, how often it comes in a row, and so on.
function unpacked(column) {
  if (Array.isArray(column)) return column;
  const found = [];
  for (let at = 0; at < column.runs.length; at += 2)
    for (let left = column.runs[at + 1]; left > 0; left--) found.push(column.runs[at]);
  return found;
}

// Half an interval, or its one side where the mean is as low or as high as there is.
function aroundText(below, above) {
  if ((below < 0.05) === (above < 0.05)) return `±${((below + above) / 2).toFixed(1)}`;
  return above < 0.05 ? `+0/−${below.toFixed(1)}` : `+${above.toFixed(1)}/−0`;
}

// Two digits, and no minus before nothing.
function inHundredths(value) {
  return value.toFixed(2).replace(/^-(0\.00)$/, "$1");
}

// A share in whole percent, and never as none or all where it is neither.
function inPercent(share) {
  return share > 0 && share < 0.01 ? "<1 %" : share > 0.99 && share < 1 ? ">99 %" : `${(100 * share).toFixed(0)} %`;
}

for (const section of document.querySelectorAll("section.leaderboard")) {
  const board = new Leaderboard(section);
  pageState.follow(state => board.show(state));
}

// The paper's numbers for another network or other data: shown on demand.
for (const box of document.querySelectorAll("label.toggle input"))
  box.addEventListener("change", () => document.body.classList.toggle("with-elsewhere", box.checked));

// Paper shows everything that the screen folds away.
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details:not([open])")) { part.open = true; part.dataset.folded = "yes"; }
});
addEventListener("afterprint", () => {
  for (const part of document.querySelectorAll("details[data-folded]")) { part.open = false; delete part.dataset.folded; }
});
