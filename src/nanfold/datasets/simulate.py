"""The paper's simulated clusters, and three ways of hiding entries."""

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

# Three uniform centres may fall anywhere; this seed's lie as far apart as those behind the paper's figures.
GEOMETRY = 50


def make_clusters(
    n_samples: int = 600,
    n_features: int = 3000,
    *,
    n_clusters: int = 3,
    latent_dim: int = 2,
    geometry: int | None = GEOMETRY,
    random_state: Any = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Clusters in a low-dimensional space, seen through a linear map with noise: the paper's simulation.

    Cluster centres are 5 (u - 1/2) with u uniform on the unit cube, the variance within clusters is 0.01, loadings are
    uniform on [-1/2, 1/2], feature means on [2.7, 3.3] and the noise's standard deviations on [1.8, 2.2].

    Parameters
    ----------
    n_samples, n_features : size of the table
    n_clusters : clusters, of equal size up to one sample
    latent_dim : dimension in which the clusters live
    geometry : seed of the cluster centres alone, so that different values of `random_state` are draws from the same
        three clusters, as in the paper's figures; None draws the centres anew, and now and then so close together that
        complete data cannot tell them apart
    random_state : seed of everything else

    Returns
    -------
    X : (n_samples, n_features) array
    labels : (n_samples,) array of whole numbers
    """
    for name, value, least in (
        ("n_samples", n_samples, max(n_clusters, 1)),
        ("n_features", n_features, 1),
        ("n_clusters", n_clusters, 1),
        ("latent_dim", latent_dim, 1),
    ):
        if value < least:
            raise ValueError(f"{name} must be at least {least}; it is {value}.")
    rng = check_random_state(random_state)
    centre_rng = rng if geometry is None else np.random.RandomState(geometry)
    centres = 5.0 * (centre_rng.uniform(size=(n_clusters, latent_dim)) - 0.5)
    labels = np.sort(np.arange(n_samples) % n_clusters)
    latent = centres[labels] + 0.1 * rng.standard_normal((n_samples, latent_dim))
    loadings = rng.uniform(-0.5, 0.5, size=(latent_dim, n_features))
    means = rng.uniform(2.7, 3.3, size=n_features)
    noise = rng.uniform(1.8, 2.2, size=n_features)
    X = latent @ loadings + means + noise * rng.standard_normal((n_samples, n_features))
    return X, labels


def hide(
    X: Any,
    share: float | None = None,
    *,
    mechanism: str = "rank-one",
    row_range: tuple[float, float] = (0.4, 0.6),
    column_range: tuple[float, float] = (0.7, 0.9),
    random_state: Any = None,
) -> np.ndarray:
    """A copy of X with entries hidden as NaN.

    Parameters
    ----------
    X : (n, d) array
    share : the share of entries to hide, in expectation; None for what the ranges give ("rank-one", about 0.4), and
        0.4 for the other mechanisms
    mechanism : "rank-one", the paper's P(hole) = b_i q_j with b and q uniform on the two ranges (scaled to the share
        if one is given); "mcar", completely at random; or "by-value", where larger values are more often observed
    row_range, column_range : of b and q
    random_state : seed
    """
    X = np.asarray(X)
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X must be a dense array of real numbers; its type is {X.dtype}.")
    X = np.array(X, dtype=np.result_type(X.dtype, np.float32), copy=True)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions; it has {X.ndim}.")
    if share is not None and not 0 < share < 1:
        raise ValueError(f"share must lie between 0 and 1; it is {share!r}.")
    # A stream of its own, or the same seed would tie the holes to the data that it made.
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31))
    if mechanism == "rank-one":
        for name, (low, high) in (("row_range", row_range), ("column_range", column_range)):
            if not 0 <= low <= high <= 1:
                raise ValueError(f"{name} must lie within [0, 1], lower end first; it is {(low, high)}.")
        P = np.outer(rng.uniform(*row_range, size=X.shape[0]), rng.uniform(*column_range, size=X.shape[1]))
        if share is not None:
            P *= share / P.mean()
            if P.max() > 1:
                raise ValueError(
                    f"share={share} asks for probabilities of a hole above 1 with these ranges; narrow the ranges or "
                    "lower the share."
                )
    elif mechanism == "mcar":
        P = np.full(X.shape, 0.4 if share is None else share)
    elif mechanism == "by-value":
        P = _hidden_by_value(X, 0.4 if share is None else share)
    else:
        raise ValueError(f"mechanism must be 'rank-one', 'mcar' or 'by-value'; it is {mechanism!r}.")
    X[rng.uniform(size=X.shape) < P] = np.nan
    return X


def _hidden_by_value(X: np.ndarray, share: float) -> np.ndarray:
    """Probabilities that fall with the value as a logistic curve, shifted until their mean is the share."""
    spread = np.nanstd(X, axis=0)
    z = (X - np.nanmean(X, axis=0)) / np.where(spread > 0, spread, 1.0)
    low, high = -50.0, 50.0
    for _ in range(60):
        middle = (low + high) / 2.0
        P = 1.0 / (1.0 + np.exp(np.clip(1.5 * z - middle, -500, 500)))
        low, high = (middle, high) if np.nanmean(P) < share else (low, middle)
    return np.nan_to_num(P)
