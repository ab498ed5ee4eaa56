// What is said about a sample: beside the pointer, in the column, and to a screen reader.
const tip = document.getElementById("tip");
const live = document.getElementById("live");
const chosen = document.getElementById("chosen");
const SHOWN = 10; // so many of a sample's values are seen at once

function element(tag, text, kind) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

// The colouring that is in use comes first.
function factsOf(i, current) {
  const order = report.colourings.filter((c) => c === current).concat(report.colourings.filter((c) => c !== current));
  return order.map((colouring) => [colouring.name, valueOf(colouring, i)]);
}

function describe(into, i, current) {
  into.replaceChildren();
  const name = element("strong", nameOf(i), "who");
  name.dir = "auto";
  into.append(name);
  const facts = factsOf(i, current);
  const list = element("dl");
  for (const [what, value] of facts.slice(0, SHOWN)) {
    const row = element("div");
    const said = element("dd", value);
    said.dir = "auto";
    row.append(element("dt", what), said);
    list.append(row);
  }
  if (facts.length) into.append(list);
  if (facts.length > SHOWN) into.append(element("p", `and ${facts.length - SHOWN} more`, "quiet"));
  if (report.distrust[i]) into.append(element("p", `To distrust: ${report.distrust[i]}`, "doubt"));
}

function showTip(i, current, x, y) {
  describe(tip, i, current);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const room = document.documentElement;
  const left = x + 18 + width > room.clientWidth ? x - 18 - width : x + 18;
  const top = Math.min(y + 14, room.clientHeight - height - 8);
  tip.style.left = `${Math.max(8, Math.min(left, room.clientWidth - width - 8))}px`;
  tip.style.top = `${Math.max(8, top)}px`;
}

function say(i, current) {
  live.textContent = [nameOf(i), ...factsOf(i, current).slice(0, 3).map(([what, value]) => `${what}: ${value}`)]
    .concat(report.distrust[i] ? [`to distrust: ${report.distrust[i]}`] : [])
    .join("; ");
}
