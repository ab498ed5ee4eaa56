// Plots that are linked: what is pointed at in one lights up in all.
const NEAR = 15; // so many neighbours of a sample that is kept are ringed
const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

class Linked {
  constructor(plots) {
    this.plots = plots;
    this.colouring = report.colourings[0] || null;
    this.hover = -1;
    this.kept = -1;
    this.near = [];
    this.doubted = []; // the samples to distrust, while they are ringed
    this.focus = null; // the style that stands out
    this.waiting = 0;
    for (const plot of plots) this.listen(plot);
  }

  listen(plot) {
    const { field } = plot;
    const under = (event, within) => {
      const box = field.getBoundingClientRect();
      return plot.at(event.clientX - box.left, event.clientY - box.top, within);
    };
    field.addEventListener("pointermove", (event) => {
      if (event.pointerType === "touch") return;
      const i = under(event, 18);
      this.point(i);
      if (i >= 0) showTip(i, this.colouring, event.clientX, event.clientY);
    });
    field.addEventListener("pointerleave", () => this.point(-1));
    field.addEventListener("click", (event) => {
      const i = under(event, 24);
      i >= 0 && i !== this.kept ? this.keep(i, plot) : this.release();
    });
    field.addEventListener("keydown", (event) => this.key(event, plot));
    field.addEventListener("focus", () => {
      if (field.matches(":focus-visible") && this.kept >= 0) this.pointByKey(this.kept, plot);
    });
    field.addEventListener("blur", () => this.point(-1));
  }

  key(event, plot) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const direction = DIRECTIONS[event.key];
    const here = this.hover >= 0 ? this.hover : this.kept;
    if (direction) {
      const next = here < 0 ? plot.at(plot.width / 2, plot.height / 2, Infinity) : plot.towards(here, ...direction);
      if (next >= 0) this.pointByKey(next, plot);
    } else if (event.key === "Home") this.pointByKey(0, plot);
    else if (event.key === "End") this.pointByKey(report.n - 1, plot);
    else if ((event.key === "Enter" || event.key === " ") && here >= 0) this.keep(here, plot);
    else return;
    event.preventDefault();
  }

  pointByKey(i, plot) {
    this.point(i);
    say(i, this.colouring);
    const box = plot.field.getBoundingClientRect();
    showTip(i, this.colouring, box.left + plot.xs[i], box.top + plot.ys[i]);
  }

  point(i) {
    if (i < 0) tip.hidden = true;
    if (i === this.hover) return;
    this.hover = i;
    root.dataset.hover = i;
    this.ring();
  }

  // Keep a sample: its neighbours in this plot are ringed in all.
  keep(i, plot) {
    this.kept = i;
    this.near = plot.nearest(i, NEAR);
    root.dataset.kept = i;
    this.ring();
    this.describeKept(plot);
    say(i, this.colouring);
  }

  describeKept(plot) {
    this.keptIn = plot;
    describe(chosen, this.kept, this.colouring);
    const k = this.near.length;
    if (k && this.plots.length > 1) {
      const shared = this.plots
        .filter((other) => other !== plot)
        .map((other) => {
          const there = new Set(other.nearest(this.kept, k));
          return `${other.embedding.name} ${this.near.filter((j) => there.has(j)).length}`;
        });
      chosen.append(element("p", `Ringed: its ${k} nearest in ${plot.embedding.name}. Of these also near it in ${shared.join(", ")}.`, "quiet"));
    }
    const go = element("button", "Let go", "plain");
    go.type = "button";
    go.addEventListener("click", () => this.release());
    chosen.append(go);
  }

  release() {
    this.kept = -1;
    this.near = [];
    delete root.dataset.kept;
    chosen.replaceChildren();
    live.textContent = "";
    this.point(-1);
    this.ring();
  }

  ring() {
    const colour = (i) => css(this.painting.styles[this.painting.codes[i]].colour);
    const rings = [...this.doubted, ...this.near].map((i) => ({ i, kind: "near" }));
    if (this.kept >= 0) rings.push({ i: this.kept, kind: "kept", colour: colour(this.kept) });
    if (this.hover >= 0) rings.push({ i: this.hover, kind: "hover", colour: colour(this.hover) });
    for (const plot of this.plots) plot.ring(rings);
  }

  // Draw everything anew: another size, theme or colouring.
  draw() {
    const start = performance.now();
    this.painting = paint(this.colouring);
    this.drawPoints();
    root.dataset.drawMs = (performance.now() - start).toFixed(1);
    if (this.kept >= 0) this.describeKept(this.keptIn);
  }

  drawPoints() {
    for (const plot of this.plots) plot.draw(this.painting, this.focus);
    this.ring();
  }

  // Another class stands out, from the next frame on.
  stand(style) {
    this.focus = style;
    cancelAnimationFrame(this.waiting);
    this.waiting = requestAnimationFrame(() => this.drawPoints());
  }

  colourBy(colouring) {
    this.colouring = colouring;
    this.focus = null;
  }
}
