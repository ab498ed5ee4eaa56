"""How long a report takes to render, how large it is, and how soon a browser has drawn it.

Needs Chromium and chromedriver. Each line is the median over fresh openings of the same file: "drawn" is the drawing of
all points of all four embeddings, "open" from the start of loading until everything is there.

    python benchmarks/report_draw.py [OPENINGS]
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import browser
from nanfold.report.page import render
from reports import full_report

SIZES = (500, 5_000, 50_000, 200_000)


def main() -> None:
    openings = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    if browser.LACKING:
        sys.exit(f"Not installed here: {' and '.join(browser.LACKING)}.")
    print(f"{'samples':>8} {'embeddings':>11} {'render':>9} {'size':>9} {'drawn':>9} {'open':>9} {'recolour':>9}")
    with tempfile.TemporaryDirectory() as folder, browser.chromium() as window:
        window.size(1440, 900)
        for n in SIZES:
            path = Path(folder) / f"{n}.html"
            start = time.perf_counter()
            source = render(full_report(n))
            rendered = time.perf_counter() - start
            path.write_text(source, encoding="utf-8")
            found = [measure(window, path) for _ in range(openings)]
            drawn, opened, recoloured = (statistics.median(column) for column in zip(*found, strict=True))
            print(
                f"{n:8,} {4:11} {rendered:7.2f} s {len(source.encode()) / 1e6:6.2f} MB "
                f"{drawn:6.0f} ms {opened:6.0f} ms {recoloured:6.0f} ms"
            )


def measure(window: browser.Browser, path: Path) -> tuple[float, float, float]:
    """Milliseconds of the first drawing, of opening, and of drawing again in other colours."""
    window.open(path)
    first = window.run("return {...document.documentElement.dataset}")
    script = "const c = document.getElementById('colour'); c.value = '1'; c.dispatchEvent(new Event('change'))"
    window.run(script)
    again = window.run("return document.documentElement.dataset.drawMs")
    return float(first["drawMs"]), float(first["readyMs"]), float(again)


if __name__ == "__main__":
    main()
