"""A small set of expression, and made-up results."""

import numpy as np

from nanfold.paper.protocol import Cell, Result


def expression(n: int = 45, d: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Counts of three kinds of cells, of which a third is lost, and the kinds."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    rates = np.exp(1.5 + rng.normal(size=(3, d)))[labels]
    counts = rng.poisson(rates) * (rng.random((n, d)) < 0.7)
    counts[:, (counts > 0).sum(axis=0) < 2] = 1
    return counts.astype(np.float64), np.array(["a", "b", "c"])[labels]


def results(data: str, means: dict[str, float], methods=("pca",), repetitions: int = 3) -> list[Result]:
    """Made-up results: a mean for each variant, with a spread that all variants share."""
    return [
        Result(
            Cell(data, variant, method, r),
            r,
            "45 x 60, 3 classes, 0123456789ab",
            ari=mean + 0.01 * (r - 1),
            n_components=2,
            seconds=1.0,
            shared_seconds=2.0,
            versions=("Python 3",),
            positions=[[float(i), float(i % 5)] for i in range(12)] if r == 0 else None,
            labels=[i % 3 for i in range(12)] if r == 0 else None,
        )
        for variant, mean in means.items()
        for method in methods
        for r in range(repetitions)
    ]
