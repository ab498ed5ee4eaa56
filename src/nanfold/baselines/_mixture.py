"""scImpute's mixture, gene by gene: Gamma for dropouts and Normal for expression, fitted by EM to log10 values.

f(y) = rate Gamma(y; a, b) + (1 - rate) Normal(y; mu, sigma); the five parameters of a gene are in this order.
"""

import math

import numpy as np
from numba import njit
from scipy.special import digamma, polygamma

from nanfold._threads import even_blocks, run_blocks

ZERO = math.log10(1.01)
"""The value of a zero count."""
LARGEST_SHAPE = 20.0
MOST_ITERATIONS = 101
SETTLED = 0.5
"""EM ends when the squared change of the log10-likelihood is at most this."""


def fit_mixtures(y: np.ndarray) -> np.ndarray:
    """Return the parameters (genes x 5) of the mixture in each column of y (cells x genes); NaN where there is no fit.

    That is for genes without counts, genes whose counts all have the same value, and genes of which one component dies
    out or closes in on a single value.
    """
    blocks = even_blocks(y.shape[1], 2048)
    return np.concatenate(run_blocks(lambda start, stop: _fit(np.ascontiguousarray(y[:, start:stop].T)), blocks))


def dropout_probability(y: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    """Return the share of the Gamma in the density at each entry of y (cells x genes)."""
    y = np.ascontiguousarray(y.T)
    w = np.empty_like(y)
    _expect(y, np.log(y), np.arange(len(y)), parameters, w)
    return w.T


def _fit(y: np.ndarray) -> np.ndarray:
    """Run EM on all rows of y at once; each leaves when its own likelihood has settled."""
    fitted = np.full((len(y), 5), np.nan)
    genes = np.flatnonzero(y.sum(axis=1) - y.shape[1] * ZERO > 1e-10)
    log_y, w = np.log(y), np.empty_like(y)
    likelihood = np.zeros(len(genes))
    _, moments = _expect(y, log_y, genes, _start(y[genes]), w)
    for _ in range(MOST_ITERATIONS):
        parameters = _maximise(moments, y.shape[1])
        fitted[genes] = parameters
        previous = likelihood
        likelihood, moments = _expect(y, log_y, genes, parameters, w)
        with np.errstate(invalid="ignore"):
            change = (likelihood - previous) ** 2
        fitted[genes[np.isnan(change)]] = np.nan
        going = change > SETTLED
        genes, likelihood, moments = genes[going], likelihood[going], moments[going]
        if not len(genes):
            break
    return fitted


def _start(y: np.ndarray) -> np.ndarray:
    """Return the parameters EM starts from: the share of zeros, and mean and deviation of the other values."""
    positive = y > ZERO
    rate = np.mean(y == ZERO, axis=1)
    count = positive.sum(axis=1)
    mu = np.sum(y, axis=1, where=positive) / count
    squares = np.sum((y - mu[:, None]) ** 2, axis=1, where=positive)
    sigma = np.sqrt(squares / np.maximum(count - 1, 1))
    # Rounding of the mean would leave equal values a deviation that is not 0, and the gene a fit.
    highest = np.max(y, axis=1, initial=-np.inf, where=positive)
    sigma[highest == np.min(y, axis=1, initial=np.inf, where=positive)] = 0
    return np.column_stack([np.where(rate == 0, 0.01, rate), np.full(len(y), 0.5), np.ones(len(y)), mu, sigma])


def _expect(
    y: np.ndarray, log_y: np.ndarray, genes: np.ndarray, parameters: np.ndarray, w: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Fill the rows `genes` of w; return their log10-likelihoods and the moments that the next parameters come from."""
    likelihood, moments = np.empty(len(genes)), np.empty((len(genes), 5))
    _add_expectations(y, log_y, genes, parameters, w, likelihood, moments)
    return likelihood, moments


@njit(cache=True, nogil=True, error_model="numpy")
def _add_expectations(
    y: np.ndarray,
    log_y: np.ndarray,
    genes: np.ndarray,
    parameters: np.ndarray,
    w: np.ndarray,
    likelihood: np.ndarray,
    moments: np.ndarray,
) -> None:
    """w = rate Gamma / f; likelihood = sum log10 f; moments = sum w, sum w y, sum w ln y, mu, sigma with weights 1 - w.

    Zeros are many and all alike, so their density is computed once a gene.
    """
    n = y.shape[1]
    for k in range(len(genes)):
        g = genes[k]
        rate, a, b, mu, sigma = parameters[k]
        gamma_scale = a * math.log(b) - math.lgamma(a)
        normal_scale = (1 - rate) / (sigma * math.sqrt(2 * math.pi))
        total = weight = weighted = weighted_log = rest = rest_weighted = 0.0
        zero_known = False
        zero_w = zero_log = 0.0
        for j in range(n):
            value = y[g, j]
            if zero_known and value == ZERO:
                posterior, log_density = zero_w, zero_log
            else:
                dropout = rate * math.exp(gamma_scale + (a - 1) * log_y[g, j] - b * value)
                density = dropout + normal_scale * math.exp(-0.5 * ((value - mu) / sigma) ** 2)
                # 0 / 0, where both densities vanish, counts as no dropout.
                posterior = 0.0 if dropout == 0 else dropout / density
                log_density = math.log10(density)
                if value == ZERO:
                    zero_known, zero_w, zero_log = True, posterior, log_density
            w[g, j] = posterior
            total += log_density
            weight += posterior
            weighted += posterior * value
            weighted_log += posterior * log_y[g, j]
            rest += 1 - posterior
            rest_weighted += (1 - posterior) * value
        mean = rest_weighted / rest
        squares = 0.0
        for j in range(n):
            squares += (1 - w[g, j]) * (y[g, j] - mean) ** 2
        likelihood[k] = total
        moments[k] = (weight, weighted, weighted_log, mean, math.sqrt(squares / rest))


def _maximise(moments: np.ndarray, n: int) -> np.ndarray:
    """Return the parameters that maximise the expected likelihood; the shape of the Gamma is held near 20 at most."""
    S, t, u, mu, sigma = moments.T
    with np.errstate(divide="ignore", invalid="ignore"):
        a = gamma_shape(np.log(t / S) - u / S)
        return np.column_stack([S / n, a, a * S / t, mu, sigma])


def gamma_shape(v: np.ndarray) -> np.ndarray:
    """Return the root a of ln a - digamma(a) = v, or 20 where v <= 0 or the usual approximation of the root is >= 20.

    The approximation is within 2 % of the root, from where three steps of Newton's method reach rounding error.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        a = (3 - v + np.sqrt((v - 3) ** 2 + 24 * v)) / (12 * v)
    capped = (v <= 0) | (a >= LARGEST_SHAPE)
    a[capped] = LARGEST_SHAPE
    rooted = ~capped & ~np.isnan(v)
    root, target = a[rooted], v[rooted]
    for _ in range(3):
        root -= (np.log(root) - digamma(root) - target) / (1 / root - polygamma(1, root))
    a[rooted] = root
    return a
