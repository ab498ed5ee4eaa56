// From a colouring to a style for every sample: codes into a list of styles, of which the first is for what is unknown.
const SHAPES = ["disc", "square", "triangle", "diamond"];
const STEPS = 240;

const root = document.documentElement;
const media = matchMedia("(prefers-color-scheme: dark)");
const themeNow = () => root.dataset.theme || (media.matches ? "dark" : "light");
const variable = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const css = ([r, g, b]) => `rgb(${r} ${g} ${b})`;

function mix(a, b, t) {
  return a.map((x, c) => Math.round(x + (b[c] - x) * t));
}

function along(stops, t) {
  const at = t * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  return mix(stops[low], stops[low + 1], at - low);
}

function paint(colouring) {
  const unknown = { colour: mix(rgb(variable("quiet")), rgb(variable("paper")), 0.55), shape: "disc", faint: true };
  if (!colouring) return { codes: new Uint16Array(report.n).fill(1), styles: [unknown, { colour: rgb(variable("blue")), shape: "disc" }] };
  return colouring.kind === "category" ? paintClasses(colouring, unknown) : paintNumbers(colouring, unknown);
}

// Eight colours in four shapes tell 32 classes apart; of more, the most frequent 32, and the others look alike.
function paintClasses(colouring, unknown) {
  const palette = report.classes[themeNow()].map(rgb);
  const sizes = new Uint32Array(colouring.classes.length + 1);
  for (const code of colouring.values) sizes[code]++;
  let told = colouring.classes.map((_, c) => c + 1);
  const most = palette.length * SHAPES.length;
  if (told.length > most) told = told.sort((a, b) => sizes[b] - sizes[a] || a - b).slice(0, most).sort((a, b) => a - b);
  const styles = [unknown];
  const styleOf = new Uint16Array(colouring.classes.length + 1);
  const entries = told.map((code, t) => {
    styleOf[code] = styles.length;
    const shape = SHAPES[Math.floor(t / palette.length)];
    styles.push({ colour: palette[t % palette.length], shape });
    return { style: styleOf[code], name: colouring.classes[code - 1], size: sizes[code] };
  });
  const rest = colouring.classes.length - told.length;
  if (rest) {
    const style = styles.push({ colour: rgb(variable("quiet")), shape: "disc", faint: true }) - 1;
    let size = 0;
    for (let code = 1; code < styleOf.length; code++)
      if (!styleOf[code]) {
        styleOf[code] = style;
        size += sizes[code];
      }
    entries.push({ style, name: `${count(rest)} rarer classes`, size, gathered: true });
  }
  if (sizes[0]) entries.push({ style: 0, name: "not known", size: sizes[0], gathered: true });
  return { codes: Uint16Array.from(colouring.values, (code) => styleOf[code]), styles, entries };
}

// Outliers would leave one colour for all others, so that the scale may end before them, which the legend then says.
function paintNumbers(colouring, unknown) {
  const finite = colouring.values.filter(Number.isFinite).sort();
  let [low, high] = finite.length ? [finite[0], finite[finite.length - 1]] : [0, 1];
  if (finite.length > 20) {
    const aside = Math.ceil(0.01 * (finite.length - 1));
    const [a, b] = [finite[aside], finite[finite.length - 1 - aside]];
    const far = b > a ? b / 2 - a / 2 : Infinity;
    if (low < a - far) low = a;
    if (high > b + far) high = b;
  }
  const stops = report.ramps[themeNow()].map(rgb);
  const styles = [unknown];
  for (let s = 0; s <= STEPS; s++) styles.push({ colour: along(stops, s / STEPS), shape: "disc" });
  const range = high / 2 - low / 2; // halved, for the range of the largest numbers is none
  let missing = 0;
  const codes = Uint16Array.from(colouring.values, (value) => {
    if (Number.isNaN(value)) return missing++, 0;
    const t = range ? (value / 2 - low / 2) / range : value === low ? 0.5 : value > low;
    return 1 + Math.round(STEPS * Math.min(1, Math.max(0, t)));
  });
  const below = finite.length > 0 && (finite[0] < low || colouring.values.includes(-Infinity));
  const above = finite.length > 0 && (finite[finite.length - 1] > high || colouring.values.includes(Infinity));
  return { codes, styles, scale: { low, high, below, above, stops, missing, any: finite.length > 0 } };
}
