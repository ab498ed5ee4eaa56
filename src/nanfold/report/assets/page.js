// The page: the choice of colours and of the theme, finding a sample, and all that is drawn again when these change.
const linked = new Linked(
  [...document.querySelectorAll(".plot")].map((section) => new Plot(section, report.embeddings[section.dataset.plot])),
);

function drawAll() {
  if (linked.plots.length) {
    linked.draw();
    drawLegend(linked);
    const note = document.getElementById("colour-note");
    if (note) note.textContent = linked.colouring.note;
  }
  drawHoles();
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

function watchPlot(plot, p) {
  plot.section.querySelector(".enlarge").addEventListener("click", (event) => {
    const on = pressed(event.target);
    event.target.textContent = on ? "Smaller" : "Enlarge";
    plot.section.classList.toggle("large", on);
  });
  plot.section.querySelector(".save").addEventListener("click", () => save(plot, p, linked));
}

function watchStage() {
  const select = document.getElementById("colour");
  select?.addEventListener("change", () => {
    linked.colourBy(report.colourings[select.value]);
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
  addEventListener("scroll", () => (tip.hidden = true), { passive: true });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    linked.release();
    legend.querySelector("[aria-pressed=true]")?.click();
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
