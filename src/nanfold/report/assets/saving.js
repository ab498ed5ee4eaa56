// A plot as a picture to keep.
function slug(text) {
  return text.normalize("NFKD").toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 60);
}

// A plot with its name and legend as one picture, three pixels for one.
function pictureOf(plot, linked) {
  const scale = 3;
  const { entries, scale: ramp } = linked.painting;
  const rows = entries ? entries.length : ramp ? 3 : 0;
  const [head, aside, line] = [44, rows ? 210 : 0, 19];
  const canvas = document.createElement("canvas");
  const height = head + Math.max(plot.height, rows * line + 34);
  canvas.width = Math.round((plot.width + aside) * scale);
  canvas.height = Math.round(height * scale);
  const inner = document.createElement("canvas");
  inner.width = Math.round(plot.width * scale);
  inner.height = Math.round(plot.height * scale);
  plot.drawInto(inner.getContext("2d", { willReadFrequently: true }), scale, linked.painting, linked.focus);
  const context = canvas.getContext("2d");
  context.fillStyle = variable("paper");
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(inner, 0, head * scale);
  context.scale(scale, scale);
  context.fillStyle = variable("ink");
  context.textBaseline = "middle";
  context.font = `600 15px ${FONT}`;
  context.fillText(shortened(context, plot.embedding.name, plot.width - 32), 16, 24);
  if (rows) drawPictureLegend(context, linked, plot.width + 4, head + 8, aside - 20, line);
  return canvas;
}

function drawPictureLegend(context, linked, left, top, width, line) {
  const { entries, scale: ramp, styles } = linked.painting;
  context.font = `600 12px ${FONT}`;
  context.fillText(shortened(context, linked.colouring.name, width), left, top);
  context.font = `12px ${FONT}`;
  if (entries) {
    entries.forEach((entry, e) => {
      const y = top + (e + 1.2) * line;
      const style = styles[entry.style];
      context.fillStyle = css(style.colour);
      outline(context, style.shape, left + 5, y, 5);
      context.fillStyle = variable("ink");
      context.fillText(shortened(context, entry.name, width - 18), left + 18, y);
    });
    return;
  }
  const across = context.createLinearGradient(left, 0, left + width, 0);
  ramp.stops.forEach((stop, s) => across.addColorStop(s / (ramp.stops.length - 1), css(stop)));
  context.fillStyle = across;
  context.fillRect(left, top + 16, width, 10);
  const say = linked.colouring.kind === "share" ? percent : tidy;
  context.fillStyle = variable("ink");
  context.fillText(`${ramp.below ? "≤ " : ""}${say(ramp.low)}`, left, top + 40);
  context.textAlign = "right";
  context.fillText(`${ramp.above ? "≥ " : ""}${say(ramp.high)}`, left + width, top + 40);
  context.textAlign = "left";
}

function outline(context, shape, x, y, r) {
  context.beginPath();
  if (shape === "disc") context.arc(x, y, r, 0, 2 * Math.PI);
  else if (shape === "square") context.rect(x - 0.86 * r, y - 0.86 * r, 1.72 * r, 1.72 * r);
  else {
    const corners = shape === "triangle" ? [[0, -1.1], [1.1, 0.8], [-1.1, 0.8]] : [[0, -1.2], [1.2, 0], [0, 1.2], [-1.2, 0]];
    corners.forEach(([a, b]) => context.lineTo(x + a * r, y + b * r));
  }
  context.fill();
}

function save(plot, p, linked) {
  const parts = [plot.embedding.name, linked.colouring?.name || ""].map(slug).filter(Boolean);
  pictureOf(plot, linked).toBlob((blob) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = `${parts.join("-") || `picture-${p + 1}`}.png`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }, "image/png");
}
