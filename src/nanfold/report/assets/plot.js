// One embedding: where its samples lie on the screen, how it is drawn, and which sample is near.
const MOST = 65535; // coordinates come in so many steps
const CELL = 16; // of the grid in which samples are looked up, in pixels
const FONT = '"Inter", system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif';

// Every sample once, in an order that mixes classes which the file has one after the other: none lies on all others.
function mixed(n) {
  const gcd = (a, b) => (b ? gcd(b, a % b) : a);
  let step = Math.max(1, Math.floor(0.618 * n));
  while (gcd(step, n) !== 1) step++;
  const order = new Uint32Array(n);
  for (let k = 0, i = 0; k < n; k++, i = (i + step) % n) order[k] = i;
  return order;
}
const ORDER = mixed(report.n);

function roundNumbers(low, high, about) {
  const rough = (high - low) / about;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((f) => f * size >= rough) * size;
  const out = [];
  for (let t = Math.ceil(low / step); t <= Math.floor(high / step); t++) out.push(Number((t * step).toPrecision(12)));
  return out;
}

class Plot {
  constructor(section, embedding) {
    this.embedding = embedding;
    this.section = section;
    this.field = section.querySelector(".field-of-points");
    this.base = section.querySelector(".base");
    this.over = section.querySelector(".over");
    this.reach = embedding.low.map((low, d) => embedding.high[d] / 2 - low / 2);
    this.xs = new Float32Array(report.n);
    this.ys = new Float32Array(report.n);
  }

  // Put the samples into the field. One unit is as long across as up, unless that would leave two thirds of it empty.
  place() {
    const { clientWidth: width, clientHeight: height } = this.field;
    if (!width || (width === this.width && height === this.height)) return;
    Object.assign(this, { width, height });
    const room = this.embedding.axes.some(Boolean)
      ? { left: 52, right: 16, top: 34, bottom: 44 }
      : { left: 16, right: 16, top: 16, bottom: 16 };
    const space = [width - room.left - room.right, height - room.top - room.bottom];
    const unit = space.map((s, d) => s / (this.reach[d] || 1));
    const least = Math.min(...unit.filter((_, d) => this.reach[d]));
    const span = space.map((s, d) => (!this.reach[d] ? 0 : unit[d] / least <= 3 ? this.reach[d] * least : s));
    if (this.reach[0] / this.reach[1] > 3 * (space[0] / space[1]) || this.reach[1] / this.reach[0] > 3 * (space[1] / space[0]))
      span.splice(0, 2, ...space);
    const left = room.left + (space[0] - span[0]) / 2;
    const foot = height - room.bottom - (space[1] - span[1]) / 2;
    this.room = room;
    this.origin = [left, foot];
    this.span = span;
    const points = this.embedding.points;
    for (let i = 0; i < report.n; i++) {
      this.xs[i] = left + (points[2 * i] / MOST) * span[0];
      this.ys[i] = foot - (points[2 * i + 1] / MOST) * span[1];
    }
    this.grid = null;
    this.radius = Math.min(4.2, Math.max(1.25, Math.sqrt((0.12 * space[0] * space[1]) / (Math.PI * report.n))));
    this.alpha = report.n < 3000 ? 0.92 : report.n < 20000 ? 0.8 : 0.65;
    this.rim = this.radius > 1.8 ? 0.7 : 0;
  }

  // The look of all samples, `focus` a style that stands out.
  draw(painting, focus) {
    const start = performance.now();
    this.place();
    if (!this.width) return;
    const scale = Math.min(devicePixelRatio || 1, 3);
    for (const canvas of [this.base, this.over]) {
      canvas.width = Math.round(this.width * scale);
      canvas.height = Math.round(this.height * scale);
    }
    this.scale = scale;
    this.drawInto(this.base.getContext("2d", { willReadFrequently: true }), scale, painting, focus);
    this.field.dataset.drawMs = (performance.now() - start).toFixed(1);
  }

  drawInto(context, scale, painting, focus) {
    const paper = rgb(variable("paper"));
    const { width, height } = context.canvas;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = css(paper);
    context.fillRect(0, 0, width, height);
    context.setTransform(scale, 0, 0, scale, 0, 0);
    if (this.embedding.axes.some(Boolean)) this.drawAxes(context);
    const image = context.getImageData(0, 0, Math.round(this.width * scale), Math.round(this.height * scale));
    const stamps = {};
    for (const shape of SHAPES) stamps[shape] = cut(shape, this.radius * scale * (shape === "disc" ? 1 : 1.1), this.rim * scale, this.alpha);
    const back = (style) => style.faint || (focus !== null && painting.styles[focus] !== style);
    const styles = painting.styles.map((style) =>
      focus !== null && back(style) ? { ...style, colour: mix(rgb(variable("faint")), paper, 0.15) } : style,
    );
    const behind = painting.styles.map(back);
    for (const front of [false, true]) {
      const order = ORDER.filter((i) => behind[painting.codes[i]] !== front);
      stamp(image, this.xs, this.ys, scale, order, painting.codes, styles, stamps, paper);
    }
    context.putImageData(image, 0, 0);
  }

  drawAxes(context) {
    const { axes, low } = this.embedding;
    const foot = this.height - this.room.bottom + 4;
    const [first, last] = [this.room.left - 4, this.width - this.room.right];
    context.font = `11px ${FONT}`;
    context.lineWidth = 1;
    const ends = [
      [first, last],
      [foot, this.room.top],
    ];
    axes.forEach((name, d) => {
      if (!this.span[d]) return;
      const perPixel = ((d ? -1 : 1) * 2 * this.reach[d]) / this.span[d];
      const [a, b] = ends[d].map((at) => low[d] + (at - this.origin[d]) * perPixel);
      for (const tick of roundNumbers(a, b, d ? 5 : 6)) {
        const at = Math.round(this.origin[d] + (tick - low[d]) / perPixel) + 0.5;
        context.strokeStyle = variable("faint");
        context.globalAlpha = tick === 0 ? 1 : 0.55;
        context.beginPath();
        d ? (context.moveTo(first, at), context.lineTo(last, at)) : (context.moveTo(at, foot), context.lineTo(at, this.room.top));
        context.stroke();
        context.globalAlpha = 1;
        context.fillStyle = variable("quiet");
        context.textAlign = d ? "right" : "center";
        context.textBaseline = d ? "middle" : "top";
        if (d && at > foot - 5) continue; // where the other axis has its numbers
        context.fillText(tidy(tick), d ? first - 5 : at, d ? at : foot + 4);
      }
    });
    context.fillStyle = variable("quiet");
    context.textAlign = "right";
    context.textBaseline = "bottom";
    context.fillText(shortened(context, axes[0], last - first), last, this.height - 5);
    // Above its axis, where it can be read without turning the head.
    context.textAlign = "left";
    context.textBaseline = "top";
    context.fillText(shortened(context, axes[1], last - 16), 16, 8);
  }

  // Rings around samples: [{ i, kind }], in every plot the same.
  ring(rings) {
    if (!this.width) return;
    const context = this.over.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.over.width, this.over.height);
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    const ink = variable("ink");
    const paper = variable("paper");
    for (const { i, kind, colour } of rings) {
      const [x, y] = [this.xs[i], this.ys[i]];
      const near = kind === "near";
      const circle = (radius, style, width) => {
        context.strokeStyle = style;
        context.lineWidth = width;
        context.beginPath();
        context.arc(x, y, radius, 0, 2 * Math.PI);
        context.stroke();
      };
      const radius = this.radius + (near ? 2 : 4.5);
      circle(radius, paper, near ? 3.5 : 6);
      circle(radius, near ? variable("orange") : ink, near ? 1.4 : kind === "kept" ? 3 : 2.2);
      if (near) continue;
      context.fillStyle = colour;
      context.beginPath();
      context.arc(x, y, this.radius + 1, 0, 2 * Math.PI);
      context.fill();
      if (kind === "kept") continue;
      // What is pointed at is looked for in the other plots: a cross of short lines leads the eye.
      for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]])
        for (const [style, width, from, to] of [[paper, 5, 2, 9.5], [ink, 2.2, 2, 8]]) {
          context.strokeStyle = style;
          context.lineWidth = width;
          context.beginPath();
          context.moveTo(x + dx * (radius + from), y + dy * (radius + from));
          context.lineTo(x + dx * (radius + to - 2), y + dy * (radius + to - 2));
          context.stroke();
        }
    }
  }

  // The samples by cells of the field, looked up by the pointer.
  index() {
    const columns = Math.ceil(this.width / CELL) + 1;
    const starts = new Uint32Array(columns * (Math.ceil(this.height / CELL) + 1) + 1);
    const cell = (i) => Math.floor(this.ys[i] / CELL) * columns + Math.floor(this.xs[i] / CELL);
    for (let i = 0; i < report.n; i++) starts[cell(i) + 1]++;
    for (let c = 1; c < starts.length; c++) starts[c] += starts[c - 1];
    const next = starts.slice();
    const members = new Uint32Array(report.n);
    for (let i = 0; i < report.n; i++) members[next[cell(i)]++] = i;
    return { columns, rows: Math.ceil(this.height / CELL) + 1, starts, members };
  }

  // The sample nearest to a place, none if all are further than `within`.
  at(x, y, within) {
    this.grid ||= this.index();
    const { columns, rows, starts, members } = this.grid;
    let [best, least] = [-1, within * within];
    const reach = (v, most) => [Math.max(0, Math.floor((v - within) / CELL)), Math.min(most - 1, Math.floor((v + within) / CELL))];
    const [left, right] = reach(x, columns);
    const [top, foot] = reach(y, rows);
    for (let row = top; row <= foot; row++)
      for (let k = starts[row * columns + left]; k < starts[row * columns + right + 1]; k++) {
        const i = members[k];
        const far = (this.xs[i] - x) ** 2 + (this.ys[i] - y) ** 2;
        if (far < least) [best, least] = [i, far];
      }
    return best;
  }

  // The next sample in a direction: near, and rather straight ahead than aside.
  towards(from, dx, dy) {
    let [best, least] = [-1, Infinity];
    for (let i = 0; i < report.n; i++) {
      const x = this.xs[i] - this.xs[from];
      const y = this.ys[i] - this.ys[from];
      const ahead = x * dx + y * dy;
      const aside = Math.abs(x * dy) + Math.abs(y * dx);
      if (ahead <= 0.01 || aside > 2 * ahead) continue;
      const cost = ahead + 2 * aside;
      if (cost < least) [best, least] = [i, cost];
    }
    return best;
  }

  // The k samples nearest to one, in the embedding's own units.
  nearest(i, k) {
    const points = this.embedding.points;
    const far = new Float64Array(report.n);
    const [a, b] = this.reach[0] || this.reach[1] ? this.reach.map((r) => r / Math.max(...this.reach)) : [1, 1];
    for (let j = 0; j < report.n; j++)
      far[j] = (a * (points[2 * j] - points[2 * i])) ** 2 + (b * (points[2 * j + 1] - points[2 * i + 1])) ** 2;
    far[i] = Infinity;
    const bound = far.slice().sort()[Math.min(k, report.n - 1) - 1];
    const out = [];
    for (let j = 0; j < report.n && out.length < k; j++) if (j !== i && far[j] <= bound) out.push(j);
    return out;
  }
}

// A text that fits, with an ellipsis where it was cut.
function shortened(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  const letters = [...text];
  while (letters.length && context.measureText(`${letters.join("")}…`).width > width) letters.pop();
  return `${letters.join("")}…`;
}
