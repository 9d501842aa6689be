"use strict";

// Cases: all that a run has kept as a grid, and one of them opened. What data says goes in as text, never as markup.
(() => {
  const PER_PAGE = 24;
  const ZERO = "P".charCodeAt(0), STEPS = 16; // letters of a signal's heat, see heat.py
  const INPUT = "input";
  const SETTINGS = ["target", "metric", "by", "sort", "page", "left", "right", "swipe", "opacity", "truth"];
  const ORDERS = {
    run: "as drawn", best: "best first", worst: "worst first",
    differ: "methods disagree most", agree: "methods agree most",
    large: "largest truth first", small: "smallest truth first",
  };

  // Elements.

  function filled(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) if (value !== null) element.setAttribute(name, value);
    element.append(...children.filter(child => child !== null));
    return element;
  }

  function make(tag, attributes = {}, ...children) {
    return filled(document.createElement(tag), attributes, children);
  }

  function draw(tag, attributes = {}, ...children) {
    return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
  }

  function fill(select, options, value) {
    select.replaceChildren(...options.map(([name, text]) => make("option", { value: name }, text)));
    select.value = value;
  }

  function choice(title, options, act) {
    const select = make("select");
    fill(select, options, "");
    select.addEventListener("change", () => act(select.value));
    return { select, label: make("label", {}, make("span", {}, title), select) };
  }

  function slider(title, move, end) {
    const range = make("input", { type: "range", min: 0, max: 100, step: 1 });
    range.addEventListener("input", () => move(range.value));
    range.addEventListener("change", () => end(range.value));
    return { range, label: make("label", {}, make("span", {}, title), range) };
  }

  function button(text, label, act) {
    const element = make("button", { type: "button", "aria-label": label }, text);
    element.addEventListener("click", act);
    return element;
  }

  // A long name may go on in a new line behind its signs.
  function named(text, kind) {
    const element = make("span", { class: kind });
    for (const piece of text.split(/(?<=[_,:/])/)) element.append(piece, make("wbr"));
    return element;
  }

  // Numbers.

  const percent = value => value === null ? "–" : (100 * value).toFixed(1);
  const counted = count => count.toLocaleString("en");

  function mean(values) {
    return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
  }

  function bounded(text, least, most, otherwise) {
    const number = text ? Math.round(Number(text)) : NaN;
    return Number.isFinite(number) ? Math.min(most, Math.max(least, number)) : otherwise;
  }

  // What there is, what the address says of it, and which cases that are, in which order.
  class Cases {
    constructor(section) {
      Object.assign(this, JSON.parse(section.querySelector("script[type='application/json']").textContent));
      for (const image of section.querySelectorAll("image[data-file]"))
        this.files[Number(image.dataset.file)] = image.getAttribute("href");
      this.places = new Map(this.cases.map((entry, place) => [entry.id, place]));
      const words = new Intl.Collator("en", { numeric: true });
      this.filters = this.facts
        .map((fact, place) => ({ ...fact, place, values: [...new Set(this.cases.map(entry => entry.facts[place]))] }))
        .map(fact => ({ ...fact, values: fact.values.filter(text => text !== "").sort(words.compare) }))
        .filter(fact => fact.filters && fact.values.length > 1);
    }

    id(name) {
      return `${this.key}.${name}`;
    }

    // The address may say anything; what makes no sense is as if it were not said.
    settings() {
      const state = pageState.read();
      const said = name => state[this.id(name === "case" ? name : `case.${name}`)] ?? "";
      const target = this.targets.includes(said("target")) ? said("target") : this.targets[0] ?? "";
      const methods = [...this.methods.keys()].filter(place => ["", target].includes(this.methods[place].target));
      const method = name => methods.find(place => this.methods[place].name === said(name)) ?? -1;
      return {
        target,
        methods,
        metric: Math.max(0, this.metrics.findIndex(words => words.name === said("metric"))),
        by: method("by"),
        left: method("left"),
        right: said("right") === INPUT ? INPUT : method("right"),
        sort: Object.hasOwn(ORDERS, said("sort")) ? said("sort") : "run",
        only: this.filters.map(fact => fact.values.find(text => text === said(`only.${fact.column}`)) ?? ""),
        page: bounded(said("page"), 1, 1e6, 1),
        open: this.places.get(said("case")) ?? -1,
        truth: said("truth") === "none" ? -1 : Math.max(0, this.truths.indexOf(said("truth"))),
        swipe: bounded(said("swipe"), 0, 100, 50),
        opacity: bounded(said("opacity"), 0, 100, 85),
      };
    }

    write(changes) {
      const keys = Object.entries(changes).map(([name, value]) => [name === "case" ? name : `case.${name}`, value]);
      pageState.write(Object.fromEntries(keys.map(([name, value]) => [this.id(name), value])));
    }

    methodName(method) {
      return method === INPUT ? INPUT : this.methods[method]?.name ?? "";
    }

    methodOptions(now) {
      return now.methods.map(place => [this.methods[place].name, this.methods[place].name]);
    }

    higherIsBetter(now) {
      return this.metrics[now.metric]?.higher ?? true;
    }

    score(entry, method, metric) {
      return entry.scores[method]?.[metric] ?? null;
    }

    // A map without a score counts as a uniform one, unless nobody has a score on this case.
    ranking(entry, method, metric) {
      const found = this.score(entry, method, metric);
      if (found !== null || entry.maps[method] === null) return found;
      return entry.scores.some(scores => (scores[metric] ?? null) !== null) ? entry.uniform[metric] ?? null : null;
    }

    // How good the chosen method is on a case, or all methods that are no floors.
    quality(entry, now) {
      if (now.by >= 0) return this.ranking(entry, now.by, now.metric);
      const methods = now.methods.filter(place => !this.methods[place].baseline);
      return mean(methods.map(place => this.ranking(entry, place, now.metric)).filter(found => found !== null));
    }

    differ(entry, now) {
      return entry.differ[now.target] ?? entry.differ[""] ?? null;
    }

    // Those that meet the filters, in order; cases without a number come last, whichever way they are sorted.
    chosen(now) {
      const meets = entry => this.filters.every((fact, k) => ["", entry.facts[fact.place]].includes(now.only[k]));
      const kept = [...this.cases.keys()].filter(place => meets(this.cases[place]));
      if (now.sort === "run") return kept;
      const quality = entry => this.quality(entry, now), differ = entry => this.differ(entry, now);
      const [key, rising] = {
        best: [quality, !this.higherIsBetter(now)], worst: [quality, this.higherIsBetter(now)],
        differ: [differ, false], agree: [differ, true],
        large: [entry => entry.share, false], small: [entry => entry.share, true],
      }[now.sort];
      const keys = new Map(kept.map(place => [place, key(this.cases[place])]));
      return kept.sort((first, second) => {
        const a = keys.get(first), b = keys.get(second);
        if (a === null || b === null) return (a === null) - (b === null) || first - second;
        return (rising ? a - b : b - a) || first - second;
      });
    }

    // Methods that have a map of a case, the best on it first.
    ranked(entry, now) {
      const sign = this.higherIsBetter(now) ? -1 : 1;
      const keys = new Map(now.methods.map(place => [place, this.ranking(entry, place, now.metric)]));
      const key = place => keys.get(place) === null ? Infinity : sign * keys.get(place);
      const there = now.methods.filter(place => entry.maps[place] !== null);
      return there.sort((a, b) => key(a) === key(b) ? a - b : key(a) - key(b));
    }
  }

  // An input, heat over it, and over that the truth.
  class Drawing {
    constructor(cases) {
      this.cases = cases;
      this.frames = 0;
    }

    image(file, kind) {
      return make("img", { class: kind, src: this.cases.files[file], alt: "", draggable: "false" });
    }

    sheet(kind) {
      const [height, width] = this.cases.pictures ? this.cases.size : [44, this.cases.size[0]];
      const box = { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" };
      return draw("svg", { class: this.cases.pictures ? kind : `signal ${kind}`, ...box });
    }

    heat(entry, method, side) {
      const map = entry.maps[method] ?? null;
      if (map === null) return null;
      if (this.cases.pictures) return this.image(map, `heat ${side}`);
      const shades = draw("g", { class: "shades" }), layer = this.sheet(`heat ${side}`);
      for (let start = 0, stop = 0; start < map.length; start = stop) {
        while (stop < map.length && map[stop] === map[start]) stop += 1;
        const step = map.charCodeAt(start) - ZERO, place = { x: start, y: 0, width: stop - start, height: 38 };
        const look = { class: step > 0 ? "for" : "against", "fill-opacity": Math.abs(step) / STEPS };
        if (step) shades.append(draw("rect", { ...place, ...look }));
      }
      layer.append(shades);
      const mark = entry.marks?.[method];
      if (mark) layer.append(draw("rect", { class: "mark", x: mark[0], y: 0.5, width: mark[1], height: 37 }));
      return layer;
    }

    // A frame within the mask, so that one sees which side of a line it is on.
    frame(path) {
      const id = this.cases.id(`frame-${this.frames += 1}`), inside = { d: path, "clip-path": `url(#${id})` };
      const clip = draw("clipPath", { id }, draw("path", { d: path }));
      return [clip, draw("path", { ...inside, class: "mask-casing" }), draw("path", { ...inside, class: "mask-outline" })];
    }

    lines(channels) {
      const every = channels.flat(), low = Math.min(...every), span = Math.max(...every) - low || 1;
      const point = (y, x) => `${x + 0.5},${(34 - 26 * (y - low) / span).toFixed(1)}`;
      return channels.map(channel => draw("polyline", { class: "line", points: channel.map(point).join(" ") }));
    }

    over(entry, truth) {
      const layer = this.sheet("over"), shape = entry.truths[truth];
      if (this.cases.pictures) {
        if (shape) layer.append(...this.frame(shape));
        return layer;
      }
      layer.append(...this.lines(entry.input));
      for (const [start, stop] of shape ?? [])
        layer.append(draw("rect", { class: "truth", x: start, y: 40, width: stop - start, height: 3 }));
      return layer;
    }

    // One heatmap, or two that share the place; a method may be INPUT or -1 for none.
    layers(entry, methods, truth, label) {
      const sides = ["left", "right"];
      const heats = methods.map((method, k) => method === INPUT ? null : this.heat(entry, method, sides[k]));
      const pale = heats.some(layer => layer !== null);
      const input = this.cases.pictures ? this.image(entry.input, pale ? "input pale" : "input") : null;
      const about = { class: this.cases.pictures ? "layers" : "layers signals", role: "img", "aria-label": label };
      const box = make("div", about, input, ...heats, this.over(entry, truth));
      if (this.cases.pictures) box.style.aspectRatio = `${this.cases.size[1]} / ${this.cases.size[0]}`;
      return box;
    }
  }

  // The controls, and a page of cases.
  class Grid {
    constructor(cases, drawing, change) {
      Object.assign(this, { cases, drawing, change });
      const bySize = ["large", "small"];
      const orders = Object.entries(ORDERS).filter(([name]) => cases.truths.length || !bySize.includes(name));
      const targets = cases.targets.map(name => [name, name.replaceAll("_", " ")]);
      const metrics = cases.metrics.map(words => [words.name, words.heading]);
      const first = changes => change({ page: "", ...changes });
      this.target = choice("explained", targets, target => first({ target, by: "", left: "", right: "" }));
      this.metric = choice("score", metrics, metric => first({ metric }));
      this.by = choice("method", [], by => first({ by }));
      this.sort = choice("sort", orders, sort => first({ sort: sort === "run" ? "" : sort }));
      this.only = cases.filters.map(fact => {
        const values = [["", "all"], ...fact.values.map(text => [text, text])];
        return choice(fact.title, values, text => first({ [`only.${fact.column}`]: text }));
      });
      const every = [...SETTINGS, ...cases.filters.map(fact => `only.${fact.column}`)];
      const nothing = Object.fromEntries(every.map(name => [name, ""]));
      const reset = button("Reset", "Reset: show all cases as drawn", () => change(nothing));
      this.controls = make("div", { class: "case-controls" },
        cases.targets.length > 1 ? this.target.label : null, cases.metrics.length > 1 ? this.metric.label : null,
        this.by.label, this.sort.label, ...this.only.map(field => field.label), reset);
      this.count = make("p", { class: "case-count", "aria-live": "polite" });
      this.tiles = make("div", { class: cases.pictures ? "case-grid" : "case-grid signals" });
      this.tiles.addEventListener("keydown", event => this.walk(event));
      this.before = button("‹", "earlier cases", () => change({ page: cases.settings().page - 1 }));
      this.after = button("›", "further cases", () => change({ page: cases.settings().page + 1 }));
      this.pages = make("span");
      const pager = { class: "case-pager", "aria-label": "pages of cases" };
      this.pager = make("nav", pager, this.before, this.pages, this.after);
      this.parts = [this.controls, this.count, this.tiles, this.pager];
    }

    // Arrows go from tile to tile.
    walk(event) {
      const tiles = [...this.tiles.children], here = tiles.indexOf(document.activeElement);
      const across = tiles.filter(tile => tile.offsetTop === tiles[0].offsetTop).length;
      const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[event.key];
      if (here < 0 || step === undefined) return;
      event.preventDefault();
      tiles[Math.min(tiles.length - 1, Math.max(0, here + step))].focus();
    }

    tile(place, now) {
      const entry = this.cases.cases[place], metric = this.cases.metrics[now.metric];
      const whose = now.by >= 0 ? this.cases.methodName(now.by) : "mean of all methods";
      const score = metric ? `${metric.title} ${percent(this.cases.quality(entry, now))}` : "";
      const label = now.by >= 0 ? `heatmap of ${whose}` : INPUT;
      const about = { type: "button", class: "case-tile", "data-case": entry.id, title: score && `${score}, ${whose}` };
      const tile = make("button", about,
        this.drawing.layers(entry, [now.by], now.truth, label), named(entry.title, "case-title"),
        entry.caption ? make("small", {}, entry.caption) : null, make("span", { class: "case-score" }, score));
      tile.addEventListener("click", () => this.change({ case: entry.id }));
      return tile;
    }

    show(now, list) {
      const { cases } = this;
      fill(this.by.select, [["", "mean of all methods"], ...cases.methodOptions(now)], cases.methodName(now.by));
      this.target.select.value = now.target;
      this.metric.select.value = cases.metrics[now.metric]?.name ?? "";
      this.sort.select.value = now.sort;
      this.only.forEach((field, k) => { field.select.value = now.only[k]; });
      const last = Math.max(1, Math.ceil(list.length / PER_PAGE)), page = Math.min(now.page, last);
      const shown = list.slice((page - 1) * PER_PAGE, page * PER_PAGE);
      this.tiles.replaceChildren(...shown.map(place => this.tile(place, now)));
      const all = list.length === cases.cases.length ? "" : ` of ${counted(cases.cases.length)}`;
      this.count.textContent = `${counted(list.length)}${all} ${cases.words.cases}`;
      this.pager.hidden = last < 2;
      this.pages.textContent = `${page} of ${last}`;
      this.before.disabled = page === 1;
      this.after.disabled = page === last;
    }

    focus(id) {
      [...this.tiles.children].find(tile => tile.dataset.case === id)?.focus();
    }
  }

  // One case: two maps over the input with a divider between them, and every method beside it.
  class OneCase {
    constructor(cases, drawing, change, leave, paint) {
      Object.assign(this, { cases, drawing, change, leave });
      this.heading = make("h3", { id: cases.id("case-title") });
      this.caption = make("p", { class: "case-caption" });
      this.position = make("span", { class: "case-position", "aria-live": "polite" });
      this.previous = button("‹", "previous case", () => this.step(-1));
      this.next = button("›", "next case", () => this.step(1));
      this.stage = make("div", { class: "case-stage" });
      this.left = choice("left", [], left => change({ left }));
      this.right = choice("right", [], right => change({ right }));
      const truths = [["none", "none"], ...cases.truths.map(name => [name, name])];
      this.truth = choice("outline", truths, truth => change({ truth }));
      this.swipe = slider("divider", amount => paint("--swipe", amount), swipe => change({ swipe }));
      this.opacity = slider("opacity", amount => paint("--opacity", amount), opacity => change({ opacity }));
      this.facts = make("dl", { class: "case-facts" });
      this.beside = make("div", { class: "case-beside" });
      this.methods = make("div", { class: cases.pictures ? "case-methods" : "case-methods signals" });
      this.dialog = this.built();
      this.listen(paint);
    }

    built() {
      const shut = button("✕", "close", this.leave);
      const steps = make("div", { class: "case-steps" }, this.previous, this.position, this.next, shut);
      const fields = [this.left, this.right, this.swipe, this.opacity];
      if (this.cases.truths.length) fields.push(this.truth);
      const keys = make("p", { class: "case-keys" }, "← → through the cases, Escape closes.");
      const controls = make("div", { class: "case-controls" }, ...fields.map(field => field.label));
      const main = make("div", { class: "case-main" }, this.stage, controls, this.facts, keys);
      return make("dialog", { class: "case-dialog", "aria-labelledby": this.heading.id },
        make("header", {}, make("div", {}, this.heading, this.caption), steps),
        make("div", { class: "case-body" }, main, make("div", {}, this.beside, this.methods)));
    }

    listen(paint) {
      this.dialog.addEventListener("keydown", event => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (step === undefined || event.target.closest("select, input")) return;
        event.preventDefault();
        this.step(step);
      });
      this.dialog.addEventListener("click", event => { if (event.target === this.dialog) this.leave(); });
      this.dialog.addEventListener("cancel", this.leave);
      this.dialog.addEventListener("close", this.leave); // Escape before anything was clicked brings no "cancel"
      const drag = event => {
        const box = this.stage.firstElementChild.getBoundingClientRect();
        const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
        this.swipe.range.value = Math.round(100 * share);
        paint("--swipe", this.swipe.range.value);
      };
      this.stage.addEventListener("pointerdown", event => {
        this.stage.setPointerCapture(event.pointerId);
        drag(event);
      });
      this.stage.addEventListener("pointermove", event => {
        if (this.stage.hasPointerCapture(event.pointerId)) drag(event);
      });
      this.stage.addEventListener("pointerup", () => this.change({ swipe: this.swipe.range.value }));
    }

    // To another case of those that the grid has; behind the last comes the first.
    step(across) {
      const now = this.cases.settings(), list = this.cases.chosen(now), here = list.indexOf(now.open);
      if (list.length) this.change({ case: this.cases.cases[list.at((here + across) % list.length)].id });
    }

    // The two methods whose maps are shown large: those that are asked for, else the first of the table.
    sides(entry, now) {
      const there = now.methods.filter(place => entry.maps[place] !== null);
      const methods = there.filter(place => !this.cases.methods[place].baseline);
      const usual = methods.length ? methods : there;
      const left = [now.left, now.by, usual[0] ?? -1].find(place => place >= 0) ?? -1;
      const asked = now.right === INPUT || now.right >= 0;
      return [left, asked ? now.right : usual.find(place => place !== left) ?? INPUT];
    }

    showStage(entry, now, sides) {
      const { cases } = this, [left, right] = sides.map(method => cases.methodName(method));
      const label = `${entry.title}: heatmap of ${left} on the left, ${right} on the right`;
      const box = this.drawing.layers(entry, sides, now.truth, label);
      box.append(make("span", { class: "border", "aria-hidden": "true" }));
      for (const [place, method] of sides.entries()) {
        const score = method >= 0 && cases.metrics.length ? ` ${percent(cases.score(entry, method, now.metric))}` : "";
        const kind = place ? "side right" : "side left";
        box.append(make("span", { class: kind, "aria-hidden": "true" }, cases.methodName(method) + score));
      }
      this.stage.replaceChildren(box);
    }

    showFacts(entry, now) {
      const said = this.cases.facts.map((fact, place) => [fact.title, entry.facts[place]]).filter(([, text]) => text);
      const differ = this.cases.differ(entry, now);
      if (entry.share !== null) said.push(["the truth covers", `${percent(entry.share)} %`]);
      if (differ !== null) said.push(["mean rank correlation between methods", (1 - differ).toFixed(2)]);
      this.facts.replaceChildren(...said.flatMap(([name, text]) => [make("dt", {}, name), make("dd", {}, text)]));
    }

    tile(entry, place, now, isLeft) {
      const { cases } = this, method = cases.methods[place];
      const remark = entry.flaws?.[place] ?? entry.marks?.[place]?.[2] ?? "";
      const scores = make("dl", { class: "case-scores" });
      for (const [metric, words] of cases.metrics.entries())
        scores.append(make("dt", {}, words.heading), make("dd", {}, percent(cases.score(entry, place, metric))));
      const kind = method.baseline ? "case-tile baseline" : "case-tile";
      const tile = make("button", { type: "button", class: kind, "aria-pressed": String(isLeft), title: method.full },
        this.drawing.layers(entry, [place], now.truth, `heatmap of ${method.name}`), named(method.name, "case-title"),
        remark ? make("small", {}, remark) : null, scores);
      tile.addEventListener("click", () => {
        this.change({ left: method.name });
        this.methods.querySelector("[aria-pressed=true]")?.focus({ preventScroll: true });
      });
      return tile;
    }

    show(now, list) {
      const { cases } = this, entry = cases.cases[now.open], here = list.indexOf(now.open);
      const sides = this.sides(entry, now), options = cases.methodOptions(now);
      this.heading.textContent = entry.title;
      this.caption.textContent = [entry.id, entry.caption].filter(text => text && text !== entry.title).join(" · ");
      this.position.textContent = here < 0 ? "not among those shown" : `${here + 1} of ${list.length}`;
      fill(this.left.select, options, cases.methodName(sides[0]));
      fill(this.right.select, [...options, [INPUT, "input only"]], cases.methodName(sides[1]));
      this.truth.select.value = cases.truths[now.truth] ?? "none";
      this.showStage(entry, now, sides);
      this.showFacts(entry, now);
      this.beside.replaceChildren(...(entry.beside ?? []).map(([text, address]) =>
        make("figure", {}, make("img", { src: address, alt: text }), make("figcaption", {}, text))));
      const tiles = cases.ranked(entry, now).map(place => this.tile(entry, place, now, place === sides[0]));
      this.methods.replaceChildren(...tiles);
    }
  }

  // What is shown follows from the address; a part is drawn anew when something that it shows has changed.
  class Explorer {
    constructor(section) {
      const cases = this.cases = new Cases(section), drawing = new Drawing(cases);
      const change = changes => { cases.write(changes); this.show(); };
      const paint = (name, amount) => this.element.style.setProperty(name, `${amount}%`);
      this.grid = new Grid(cases, drawing, change);
      // The dialog closes because the address names no case, so that the two never differ.
      const leave = () => {
        const now = cases.settings(), page = Math.floor(cases.chosen(now).indexOf(now.open) / PER_PAGE) + 1;
        if (now.open < 0) return;
        change({ case: "", page: page > 1 ? page : "" });
        this.grid.focus(cases.cases[now.open].id);
      };
      this.one = new OneCase(cases, drawing, change, leave, paint);
      this.element = make("div", { class: "explorer" }, ...this.grid.parts, this.one.dialog);
      this.paint = paint;
      section.querySelector(".plain").after(this.element);
      section.classList.add("live");
      pageState.follow(() => this.show());
    }

    show() {
      const { grid, one } = this, now = this.cases.settings(), list = this.cases.chosen(now);
      const common = [now.target, now.metric, now.by, now.sort, now.only, now.truth];
      const gridShows = JSON.stringify([...common, now.page]);
      if (gridShows !== this.gridShows) grid.show(now, list);
      this.gridShows = gridShows;
      for (const name of ["swipe", "opacity"]) {
        one[name].range.value = now[name];
        this.paint(`--${name}`, now[name]);
      }
      if (now.open < 0) {
        if (one.dialog.open) one.dialog.close();
        return;
      }
      const caseShows = JSON.stringify([...common, now.open, now.left, now.right]);
      if (caseShows !== this.caseShows) one.show(now, list);
      this.caseShows = caseShows;
      if (one.dialog.open) return;
      one.dialog.showModal();
      one.next.focus();
    }
  }

  for (const section of document.querySelectorAll("section[data-cases]")) new Explorer(section);
})();
