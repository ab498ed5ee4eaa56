// The page: the choice of colours and theme, the legend, finding and saving, the map of holes.
const linked = new Linked(
  [...document.querySelectorAll(".plot")].map((section) => new Plot(section, report.embeddings[section.dataset.plot])),
);
const legend = document.getElementById("legend");

function swatch(style) {
  const made = element("span", undefined, `swatch ${style.shape}`);
  made.style.background = css(style.colour);
  return made;
}

function drawLegend() {
  if (!legend) return;
  legend.replaceChildren();
  const { entries, scale, styles } = linked.painting;
  if (entries) legend.append(...entries.map((entry) => classEntry(entry, styles)));
  if (scale) legend.append(...scaleEntry(scale, styles));
}

// A class: pointing at it makes it stand out, and pressing it keeps it so.
function classEntry(entry, styles) {
  const button = element("button", undefined, "class");
  button.type = "button";
  button.setAttribute("aria-pressed", "false");
  button.title = entry.name;
  const name = element("span", entry.name, entry.gathered ? "name quiet" : "name");
  name.dir = "auto";
  button.append(swatch(styles[entry.style]), name, element("span", count(entry.size), "count"));
  const alone = () => legend.querySelector("[aria-pressed=true]");
  button.addEventListener("pointerenter", (event) => event.pointerType !== "touch" && !alone() && linked.stand(entry.style));
  button.addEventListener("pointerleave", () => !alone() && linked.focus !== null && linked.stand(null));
  button.addEventListener("click", () => {
    if (alone() !== button) alone()?.setAttribute("aria-pressed", "false");
    linked.stand(pressed(button) ? entry.style : null);
  });
  return button;
}

function scaleEntry(scale, styles) {
  const share = linked.colouring.kind === "share" ? percent : tidy;
  const parts = [];
  if (scale.any) {
    const bar = element("div", undefined, "ramp");
    bar.style.background = `linear-gradient(to right, ${scale.stops.map(css).join(", ")})`;
    const ends = element("div", undefined, "ends");
    ends.append(
      element("span", `${scale.below ? "≤ " : ""}${share(scale.low)}`),
      element("span", share(scale.low / 2 + scale.high / 2)),
      element("span", `${scale.above ? "≥ " : ""}${share(scale.high)}`),
    );
    parts.push(bar, ends);
  }
  if (scale.missing) {
    const row = element("div", undefined, "class");
    row.append(swatch(styles[0]), element("span", "not known", "name quiet"), element("span", count(scale.missing), "count"));
    parts.push(row);
  }
  return parts;
}

function drawAll() {
  if (linked.plots.length) {
    linked.draw();
    drawLegend();
    const note = document.getElementById("colour-note");
    if (note) note.textContent = linked.colouring.note;
    root.dataset.colouring = linked.colouring ? linked.colouring.name : "";
  }
  drawHoles();
}

function drawHoles() {
  const canvas = document.getElementById("holes");
  if (!canvas) return;
  const { shape, share } = report.holes;
  [canvas.height, canvas.width] = shape;
  const context = canvas.getContext("2d");
  const image = context.createImageData(shape[1], shape[0]);
  const [hole, seen] = [mix(rgb(variable("blue")), rgb(variable("paper")), 0.93), rgb(variable("blue"))];
  for (let k = 0; k < share.length; k++) image.data.set([...mix(hole, seen, share[k] / 255), 255], 4 * k);
  context.putImageData(image, 0, 0);
}

function watchHoles() {
  const canvas = document.getElementById("holes");
  if (!canvas) return;
  const at = document.getElementById("holes-at");
  const [rows, columns] = report.holes.shape;
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const row = Math.min(rows - 1, Math.floor(((event.clientY - box.top) / box.height) * rows));
    const column = Math.min(columns - 1, Math.floor(((event.clientX - box.left) / box.width) * columns));
    if (row < 0 || column < 0) return;
    const seen = report.holes.share[row * columns + column] / 255;
    at.textContent = `Here, ${percent(row / rows)} down and ${percent(column / columns)} across: ${percent(seen)} observed. `;
  });
  canvas.addEventListener("pointerleave", () => (at.textContent = ""));
}

function watchTheme() {
  const button = document.getElementById("theme");
  const named = () => {
    const other = themeNow() === "dark" ? "light" : "dark";
    button.textContent = other === "dark" ? "Dark" : "Light";
    button.setAttribute("aria-label", `Change to ${other} colours`);
  };
  // A browser may forbid pages from disk to remember anything.
  try {
    const before = localStorage.getItem("nanfold-theme");
    if (before) root.dataset.theme = before;
  } catch {}
  button.hidden = false;
  named();
  button.addEventListener("click", () => {
    root.dataset.theme = themeNow() === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("nanfold-theme", root.dataset.theme);
    } catch {}
    named();
    drawAll();
  });
  media.addEventListener("change", () => {
    named();
    drawAll();
  });
}

function watchFind() {
  const input = document.getElementById("find");
  let [asked, turn] = ["", 0];
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    const wanted = input.value.trim().toLowerCase();
    if (!wanted) return;
    const found = [];
    for (let i = 0; i < report.n; i++) if (nameOf(i).toLowerCase().includes(wanted)) found.push(i);
    found.sort((a, b) => nameOf(a).length - nameOf(b).length || a - b);
    turn = wanted === asked ? turn + 1 : 0;
    asked = wanted;
    if (!found.length) {
      linked.release();
      const says = `No sample is called “${input.value.trim()}”.`;
      chosen.replaceChildren(element("p", says, "quiet"));
      live.textContent = says;
      return;
    }
    linked.keep(found[turn % found.length], linked.plots[0]);
    if (found.length > 1) {
      const says = `${(turn % found.length) + 1} of ${count(found.length)} that match; Enter for the next.`;
      chosen.append(element("p", says, "quiet"));
      live.textContent += `; ${says}`;
    }
  });
}

function slug(text) {
  return text.normalize("NFKD").toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 60);
}

// A plot with its name and legend as one picture, three pixels for one.
function pictureOf(plot) {
  const scale = 3;
  const { entries, scale: ramp, styles } = linked.painting;
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
  if (rows) drawPictureLegend(context, plot.width + 4, head + 8, aside - 20, line);
  return canvas;
}

function drawPictureLegend(context, left, top, width, line) {
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

// What a button that stays pressed is after this press.
function pressed(button) {
  const on = button.getAttribute("aria-pressed") === "false";
  button.setAttribute("aria-pressed", String(on));
  return on;
}

function watchPlot(plot, p) {
  plot.section.querySelector(".enlarge").addEventListener("click", (event) => {
    const on = pressed(event.target);
    event.target.textContent = on ? "Smaller" : "Enlarge";
    plot.section.classList.toggle("large", on);
  });
  plot.section.querySelector(".save").addEventListener("click", () => {
    const parts = [plot.embedding.name, linked.colouring?.name || ""].map(slug).filter(Boolean);
    pictureOf(plot).toBlob((blob) => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = `${parts.join("-") || `picture-${p + 1}`}.png`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    }, "image/png");
  });
}

function watchStage() {
  const select = document.getElementById("colour");
  select?.addEventListener("change", () => {
    linked.colouring = report.colourings[select.value];
    linked.focus = null;
    drawAll();
  });
  linked.plots.forEach(watchPlot);
  watchFind();
  for (const button of document.querySelectorAll(".sample[data-sample]")) watchSample(button, Number(button.dataset.sample), linked);
  new Samples(document.getElementById("samples"), linked);
  const ring = document.getElementById("ring");
  ring?.addEventListener("click", () => {
    const on = pressed(ring);
    linked.doubted = on ? ring.dataset.samples.split(" ").map(Number) : [];
    linked.ring();
    if (on) document.querySelector(".stage").scrollIntoView({ block: "start" });
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    linked.release();
    legend?.querySelector("[aria-pressed=true]")?.click();
  });
  let waiting = 0;
  new ResizeObserver(() => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => {
      if (linked.plots.some(({ field, width, height }) => field.clientWidth !== width || field.clientHeight !== height)) drawAll();
    });
  }).observe(document.querySelector(".plots"));
}

watchTheme();
watchHoles();
drawAll();
if (linked.plots.length) watchStage();
root.dataset.readyMs = performance.now().toFixed(0);
