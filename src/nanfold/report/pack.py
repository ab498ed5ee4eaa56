"""What the page's script reads: the samples as arrays of bytes, a few for each sample."""

import base64
import json
import re
from typing import Any

import numpy as np

from nanfold.report.content import Colouring, Embedding, ReportContent
from nanfold.report.theme import CLASSES, RAMPS

# No screen has as many pixels as this, so that coordinates rounded to it lie where they lay.
STEPS = 2**16 - 1
SINGLE = np.finfo(np.float32)


def data(content: ReportContent) -> str:
    """Everything that the script needs, as JSON that cannot end the element it stands in."""
    holes = content.holes
    packed = {
        "n": content.n_samples,
        "names": content.names,
        "embeddings": [_embedding(embedding) for embedding in content.embeddings],
        "colourings": [_colouring(colouring) for colouring in content.colourings] if content.embeddings else [],
        "distrust": {position: reason for position, _, _, reason in content.distrust.rows} if content.distrust else {},
        "holes": holes and {"shape": list(holes.share.shape), "share": _holes(holes.share)},
        "classes": CLASSES,
        "ramps": RAMPS,
    }
    # Not a letter beyond ASCII, so that halves of characters do no harm, and nothing that looks like markup.
    return json.dumps(packed, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c").replace("&", "\\u0026")


def _bytes(values: np.ndarray, kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode("ascii")


def _embedding(embedding: Embedding) -> dict[str, Any]:
    points = np.asarray(embedding.points, dtype=float)
    low, high = points.min(axis=0, initial=np.inf), points.max(axis=0, initial=-np.inf)
    if not len(points):
        low, high = np.zeros(2), np.zeros(2)
    # Halved, or the range of the largest numbers would overflow.
    reach = high / 2 - low / 2
    steps = np.rint((points / 2 - low / 2) / np.where(reach > 0, reach, 1.0) * STEPS)
    return {
        "name": embedding.name,
        "axes": list(embedding.axes),
        "low": low.tolist(),
        "high": high.tolist(),
        "points": _bytes(steps, "<u2"),
    }


def _colouring(colouring: Colouring) -> dict[str, Any]:
    out: dict[str, Any] = {"name": colouring.name, "kind": colouring.kind, "note": colouring.note}
    if colouring.kind != "category":
        values = np.asarray(colouring.values, dtype=float)
        size = np.abs(values[np.isfinite(values) & (values != 0)])
        # Seven digits are more than are shown, if the numbers are of a size that they can have.
        wide = bool(np.any((size > SINGLE.max) | (size < SINGLE.tiny)))
        return out | {"wide": wide, "values": _bytes(values, "<f8" if wide else "<f4")}
    values = np.asarray([str(value) for value in colouring.values], dtype=object)
    classes = sorted(set(values) - {""}, key=_natural)
    code = {name: c for c, name in enumerate(classes, start=1)} | {"": 0}
    return out | {"classes": classes, "values": _bytes(np.array([code[value] for value in values]), "<u4")}


def _natural(name: str) -> tuple[list[tuple[int, int, str]], str]:
    """The order in which a person would put names: 2 before 10."""
    parts = re.findall(r"([0-9]+)|([^0-9]+)", name.casefold())
    return [(0, int(digits), "") if digits else (1, 0, other) for digits, other in parts], name


def _holes(share: np.ndarray) -> str:
    return _bytes(np.rint(255 * np.clip(np.asarray(share, float), 0.0, 1.0)), "<u1")
