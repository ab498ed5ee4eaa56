// The report's data, and the arrays in it.
const report = JSON.parse(document.getElementById("report-data").textContent);

function unpack(text, kind) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return new kind(bytes.buffer);
}

for (const embedding of report.embeddings) embedding.points = unpack(embedding.points, Uint16Array);
for (const colouring of report.colourings)
  colouring.values = unpack(colouring.values, colouring.kind === "category" ? Uint32Array : colouring.wide ? Float64Array : Float32Array);
if (report.holes) report.holes.share = unpack(report.holes.share, Uint8Array);

const nameOf = (i) => (report.names ? report.names[i] || `(no name, sample ${i + 1})` : `sample ${i + 1}`);

const count = (k) => k.toLocaleString("en");

// A number in three digits, with a true minus.
function tidy(value) {
  if (Number.isNaN(value)) return "not known";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  const text =
    size && (size < 1e-4 || size >= 1e7)
      ? Number(value.toPrecision(3)).toExponential()
      : Number(value.toPrecision(Math.max(3, Math.ceil(Math.log10(size + 1))))).toLocaleString("en", {
          maximumFractionDigits: 8,
        });
  return text.replace("-", "−");
}

const percent = (share) => (Number.isNaN(share) ? "not known" : `${(100 * share).toFixed(1)} %`);

// What a colouring says of one sample.
function valueOf(colouring, i) {
  const value = colouring.values[i];
  if (colouring.kind === "category") return value ? colouring.classes[value - 1] : "not known";
  return colouring.kind === "share" ? percent(value) : tidy(value);
}
