// The map of holes, and what was seen of it where the pointer is.
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
