// Points drawn by blending a small stamp into the pixels: 50,000 of them take some milliseconds, where as many paths
// would take a second. A stamp has a rim in the colour of the paper, so that points which overlap stay apart.
const EDGES = {
  disc: (x, y, r) => Math.hypot(x, y) - r,
  square: (x, y, r) => Math.max(Math.abs(x), Math.abs(y)) - 0.86 * r,
  triangle: (x, y, r) => Math.max(0.866 * Math.abs(x) - 0.5 * y, y) - 0.62 * r,
  diamond: (x, y, r) => (Math.abs(x) + Math.abs(y)) * 0.7071 - 0.84 * r,
};

function cut(shape, radius, rim, alpha) {
  const half = Math.ceil(1.25 * radius + rim);
  const size = 2 * half + 1;
  const ink = new Float32Array(size * size);
  const all = new Float32Array(size * size);
  const cover = (edge) => Math.min(1, Math.max(0, 0.5 - edge));
  for (let y = -half, at = 0; y <= half; y++)
    for (let x = -half; x <= half; x++, at++) {
      const edge = EDGES[shape](x, y + (shape === "triangle" ? 0.2 * radius : 0), radius);
      ink[at] = alpha * cover(edge);
      all[at] = rim ? Math.max(ink[at], alpha * cover(edge - rim)) : ink[at];
    }
  return { half, size, ink, all };
}

// Stamp the samples of `order` at (xs, ys), in pixels of the image.
function stamp(image, xs, ys, scale, order, codes, styles, stamps, paper) {
  const { data, width, height } = image;
  for (const i of order) {
    const style = styles[codes[i]];
    const [r, g, b] = style.colour;
    const { half, size, ink, all } = stamps[style.shape];
    const left = Math.round(xs[i] * scale) - half;
    const top = Math.round(ys[i] * scale) - half;
    const from = Math.max(0, -left);
    const to = Math.min(size, width - left);
    for (let y = Math.max(0, -top); y < size && top + y < height; y++) {
      let at = 4 * ((top + y) * width + left + from);
      for (let k = y * size + from; k < y * size + to; k++, at += 4) {
        const a = ink[k];
        const whole = all[k];
        if (!whole) continue;
        const rim = whole - a;
        const under = 1 - whole;
        data[at] = r * a + paper[0] * rim + data[at] * under;
        data[at + 1] = g * a + paper[1] * rim + data[at + 1] * under;
        data[at + 2] = b * a + paper[2] * rim + data[at + 2] * under;
      }
    }
  }
}
