"""One function a method: from a table with NaN in its holes to scores (n, k) and loadings (d, k).

Each runs in the environment of its own package, so that nothing is imported here but numpy until it is called. Options
are the packages' own but where a comment says why not.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Fit = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Method:
    """A function and the package it belongs to; `group` is its environment, empty for that of the caller."""

    fit: Callable[[np.ndarray, int], Fit]
    package: str
    group: str = ""


def nanfold(X: np.ndarray, k: int) -> Fit:
    import nanfold as nf

    pca = nf.PCA(k, random_state=0)
    scores = pca.fit_transform(X)
    return scores, pca.components_.T


def nanfold_plain(X: np.ndarray, k: int) -> Fit:
    import nanfold as nf

    pca = nf.PCA(k, assist=0, random_state=0)
    scores = pca.fit_transform(X)
    return scores, pca.components_.T


def cmfrec_tuned(X: np.ndarray, k: int) -> Fit:
    # A bias of rows is a component that PCA does not have; exact solutions are faster and better than conjugate
    # gradients at this size.
    return _cmfrec(X, k, niter=3, use_cg=False, user_bias=False)


def cmfrec_longer(X: np.ndarray, k: int) -> Fit:
    return _cmfrec(X, k, niter=5, use_cg=False, user_bias=False)


def cmfrec_defaults(X: np.ndarray, k: int) -> Fit:
    return _cmfrec(X, k)


def _cmfrec(X: np.ndarray, k: int, **options: object) -> Fit:
    from cmfrec import CMF

    model = CMF(k=k, verbose=False, nthreads=int(os.environ.get("OMP_NUM_THREADS", -1)), **options).fit(X)
    return turned(model.A_[:, -k:], model.B_[:, -k:])


def ppca(X: np.ndarray, k: int) -> Fit:
    from ppca import PPCA

    model = PPCA(n_components=k, random_state=0).fit(X)
    latent, _ = model.posterior_latent(X)
    return turned(latent, model.get_params()["components"].T)


def mean_fill(X: np.ndarray, k: int) -> Fit:
    from sklearn.impute import SimpleImputer

    return principal(SimpleImputer().fit_transform(X), k)


def knn_imputer(X: np.ndarray, k: int) -> Fit:
    from sklearn.impute import KNNImputer

    return principal(KNNImputer().fit_transform(X), k)


def iterative_imputer(X: np.ndarray, k: int) -> Fit:
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    warnings.simplefilter("ignore", ConvergenceWarning)
    # With every other feature as a predictor, its default, no problem here ends within the limit.
    return principal(IterativeImputer(n_nearest_features=20, random_state=0).fit_transform(X), k)


def statsmodels_fill_em(X: np.ndarray, k: int) -> Fit:
    from statsmodels.multivariate.pca import PCA

    # Neither scales the features nor the scores, as no other method here does.
    pca = PCA(X, ncomp=k, standardize=False, normalize=False, missing="fill-em")
    return np.asarray(pca.factors), np.asarray(pca.loadings)


def soft_impute(X: np.ndarray, k: int) -> Fit:
    import warnings

    from fancyimpute import SoftImpute

    warnings.simplefilter("ignore", FutureWarning)
    # It fills the holes with zeros to start with.
    return principal(SoftImpute(verbose=False).fit_transform(X - np.nanmean(X, axis=0)), k)


def open_nipals(X: np.ndarray, k: int) -> Fit:
    from open_nipals.nipalsPCA import NipalsPCA

    # It wants features of mean zero.
    model = NipalsPCA(n_components=k).fit(X - np.nanmean(X, axis=0))
    return model.fit_scores, model.loadings


METHODS = {
    "nanfold": Method(nanfold, "nanfold"),
    "nanfold, assist=0": Method(nanfold_plain, "nanfold"),
    "cmfrec, niter=3, exact": Method(cmfrec_tuned, "cmfrec", "cmfrec"),
    "cmfrec, niter=5, exact": Method(cmfrec_longer, "cmfrec", "cmfrec"),
    "cmfrec, defaults": Method(cmfrec_defaults, "cmfrec", "cmfrec"),
    "ppca-py": Method(ppca, "ppca-py", "ppca-py"),
    "mean fill": Method(mean_fill, "scikit-learn"),
    "KNNImputer": Method(knn_imputer, "scikit-learn"),
    "IterativeImputer": Method(iterative_imputer, "scikit-learn"),
    "statsmodels fill-em": Method(statsmodels_fill_em, "statsmodels", "statsmodels"),
    "fancyimpute SoftImpute": Method(soft_impute, "fancyimpute", "fancyimpute"),
    "open-nipals": Method(open_nipals, "open-nipals", "open-nipals"),
}


def principal(filled: np.ndarray, k: int) -> Fit:
    """PCA of a filled table, by the smaller of its two Gram matrices."""
    Y = filled - filled.mean(axis=0)
    wide = Y.shape[0] < Y.shape[1]
    _, vectors = np.linalg.eigh(Y @ Y.T if wide else Y.T @ Y)
    loadings = np.linalg.qr(Y.T @ vectors[:, : -k - 1 : -1])[0] if wide else vectors[:, : -k - 1 : -1]
    return Y @ loadings, loadings


def turned(scores: np.ndarray, loadings: np.ndarray) -> Fit:
    """The same product with orthonormal loadings, so that distances of scores are those of reconstructed rows."""
    basis, mixing = np.linalg.qr(np.asarray(loadings, dtype=np.float64))
    return np.asarray(scores, dtype=np.float64) @ mixing.T, basis
