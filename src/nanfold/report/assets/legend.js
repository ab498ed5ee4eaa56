// What the colours say: classes that can be made to stand out, or a scale.
const legend = document.getElementById("legend");

function swatch(style) {
  const made = element("span", undefined, `swatch ${style.shape}`);
  made.style.background = css(style.colour);
  return made;
}

function drawLegend(linked) {
  legend.replaceChildren();
  const { entries, scale, styles } = linked.painting;
  if (entries) legend.append(...entries.map((entry) => classEntry(entry, styles, linked)));
  if (scale) legend.append(...scaleEntry(scale, styles, linked.colouring));
}

// What a button that stays pressed is after this press.
function pressed(button) {
  const on = button.getAttribute("aria-pressed") === "false";
  button.setAttribute("aria-pressed", String(on));
  return on;
}

// A class: pointing at it makes it stand out, and pressing it keeps it so.
function classEntry(entry, styles, linked) {
  const button = element("button", undefined, "class");
  button.type = "button";
  button.setAttribute("aria-pressed", String(linked.focus === entry.style));
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

function scaleEntry(scale, styles, colouring) {
  const share = colouring.kind === "share" ? percent : tidy;
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

