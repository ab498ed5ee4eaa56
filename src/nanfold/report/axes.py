"""The frame of a small chart: scales, ticks, and where they lie in the picture."""

import math
from dataclasses import dataclass

import numpy as np

from nanfold.report.markup import number, text

WIDTH, HEIGHT = 400, 264
TOP, BOTTOM, RIGHT = 26, 40, 12


@dataclass(frozen=True)
class Scale:
    """From data to [0, 1], linearly or by the logarithm."""

    low: float
    high: float
    log: bool = False

    @classmethod
    def around(cls, values: np.ndarray, log: bool = False, zero: bool = False) -> "Scale":
        """A scale with some room around all values that can be drawn; `zero` includes it, without room below."""
        values = values[drawable(values, log)]
        if not len(values):
            return cls(1.0, 10.0, True) if log else cls(0.0, 1.0)
        low, high = float(values.min()), float(values.max())
        if log:
            room = max((high / low) ** 0.04, 1.1)
            return cls(low / room, high * room, True)
        if zero:
            low, high = min(low, 0.0), max(high, 0.0)
        room = 0.04 * (high - low) or 0.5 * abs(high) or 0.5
        return cls(low - (room if low or not zero else 0.0), high + (room if high or not zero else 0.0))

    def __call__(self, values: np.ndarray | float) -> np.ndarray:
        values = np.asarray(values, dtype=float)
        if self.log:
            return np.log(values / self.low) / math.log(self.high / self.low)
        return (values - self.low) / (self.high - self.low)

    def ticks(self, about: int = 5) -> list[float]:
        """Round numbers within the scale, some `about` of them."""
        if not self.log:
            return _round_numbers(self.low, self.high, about)
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for factors in ((1,), (1, 3), (1, 2, 5)):
            ticks = [f * 10.0**e for e in decades for f in factors if self.low <= f * 10.0**e <= self.high]
            if len(ticks) >= 3:
                return ticks[:: math.ceil(len(ticks) / (about + 2))]
        return _round_numbers(self.low, self.high, about)


def _round_numbers(low: float, high: float, about: int) -> list[float]:
    rough = (high - low) / about
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * size for factor in (1, 2, 5, 10) if factor * size >= rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(t * step, 12 - math.floor(math.log10(step))) for t in range(first, last + 1)]


def drawable(values: np.ndarray, log: bool) -> np.ndarray:
    """Which values have a place on an axis."""
    with np.errstate(invalid="ignore"):
        return np.isfinite(values) & ((values > 0) | (not log))


class Axes:
    """Two scales in a picture of WIDTH x HEIGHT; the name of y stands above its axis, where it can be read."""

    def __init__(self, x: Scale, y: Scale, whole: bool = False) -> None:
        self.x, self.y = x, y
        self.x_ticks = [t for t in x.ticks() if not whole or t == round(t)]
        self.y_ticks = y.ticks()
        widest = max((len(number(t, 6)) for t in self.y_ticks), default=1)
        self.left = 14 + 6.2 * widest

    def across(self, values: np.ndarray | float) -> np.ndarray:
        """Where values of x lie."""
        return self.left + self.x(values) * (WIDTH - RIGHT - self.left)

    def up(self, values: np.ndarray | float) -> np.ndarray:
        """Where values of y lie."""
        return HEIGHT - BOTTOM - self.y(values) * (HEIGHT - BOTTOM - TOP)

    def frame(self, x_name: str, y_name: str) -> str:
        """Grid lines, ticks and names."""
        foot, end = HEIGHT - BOTTOM, WIDTH - RIGHT
        out = [f'<text class="name" x="2" y="12">{text(y_name)}</text>']
        out.append(
            f'<text class="name" x="{(self.left + end) / 2:.0f}" y="{HEIGHT - 5}" text-anchor="middle">'
            f"{text(x_name)}</text>"
        )
        for tick in self.y_ticks:
            y = float(self.up(tick))
            strong = ' class="zero"' if tick == 0 else ""
            out.append(f'<path{strong} d="M{self.left:.1f} {y:.1f}H{end}"/>')
            out.append(f'<text x="{self.left - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{number(tick, 6)}</text>')
        for tick in self.x_ticks:
            x = float(self.across(tick))
            out.append(f'<path class="tick" d="M{x:.1f} {foot}v4"/>')
            out.append(f'<text x="{x:.1f}" y="{foot + 17}" text-anchor="middle">{number(tick, 6)}</text>')
        return '<g class="frame">' + "".join(out) + f'<path class="foot" d="M{self.left:.1f} {foot}H{end}"/></g>'

    def marks(self, marks: list[tuple[float, str]]) -> str:
        """Vertical lines with their labels, on the side with more room, below one another."""
        out = []
        for m, (position, label) in enumerate(marks):
            x = float(self.across(position))
            after = x < (self.left + WIDTH - RIGHT) / 2
            out.append(f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
            out.append(
                f'<text x="{x + (6 if after else -6):.1f}" y="{TOP + 11 + 14 * (m % 4)}" '
                f'text-anchor="{"start" if after else "end"}">{text(label)}</text>'
            )
        return f'<g class="marks">{"".join(out)}</g>' if out else ""


def path(points: np.ndarray) -> str:
    """A line through points, broken where one has no place."""
    out, pen = [], "M"
    for x, y in points:
        if math.isfinite(x) and math.isfinite(y):
            out.append(f"{pen}{x:.1f} {y:.1f}")
            pen = "L"
        else:
            pen = "M"
    return "".join(out)


def dots(points: np.ndarray) -> str:
    """Strokes of no length, which round caps make dots: a few bytes each."""
    return "".join(f"M{x:.1f} {y:.1f}h0" for x, y in points)


def picture(inner: str, described_by: str) -> str:
    """The svg element; what it shows is said by the element of that identifier."""
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{described_by}">{inner}</svg>'
