"""The diagonal freed of noise that differs between samples."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

import nanfold as nf
from nanfold.diagonal import ShiftedGram, denoised
from nanfold.spectrum import exact_eigenpairs


def noisy(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A rank-2 signal, and it again with noise whose size differs between samples."""
    rng = np.random.default_rng(seed)
    signal = rng.standard_normal((80, 2)) @ rng.standard_normal((2, 400))
    noise = rng.uniform(0.2, 6.0, size=80)[:, None] * rng.standard_normal((80, 400))
    return signal, signal + noise


def angle(A: np.ndarray, B: np.ndarray) -> float:
    """The sine of the largest angle between two subspaces."""
    A, B = np.linalg.qr(A)[0], np.linalg.qr(B)[0]
    return float(np.sqrt(max(0.0, 1 - np.linalg.svd(A.T @ B)[1].min() ** 2)))


def test_shifted_gram_is_the_other_with_a_new_diagonal():
    gram = nf.unbiased_gram(nf.datasets.hide(noisy()[1], random_state=0))
    diagonal = np.arange(80.0)
    shifted = ShiftedGram(gram, diagonal)
    expected = gram.toarray()
    np.fill_diagonal(expected, diagonal)
    assert_allclose(shifted.toarray(), expected)
    assert_allclose(shifted.diagonal(), diagonal)
    assert_allclose(shifted.rows(3, 9), expected[3:9], atol=1e-12)
    V = np.random.default_rng(1).standard_normal((80, 3))
    assert_allclose(shifted @ V, expected @ V, atol=1e-10)
    assert_allclose(shifted @ V[:, 0], expected @ V[:, 0], atol=1e-10)

    N = np.random.default_rng(0).standard_normal((80, 3))
    Z, image = shifted.step(N, shifted.image(N))
    assert_allclose(Z, shifted @ N, rtol=1e-10)
    assert_allclose(image, gram.image(Z), rtol=1e-10)


def test_the_diagonal_stands_still_at_its_low_rank_approximation():
    gram = denoised(nf.unbiased_gram(noisy()[1]), 2, tol=1e-8, max_iter=2000)
    pairs = exact_eigenpairs(gram, 2)
    low_rank = np.einsum("ia,a,ia->i", pairs.vectors, pairs.values, pairs.vectors)
    assert_allclose(gram.diagonal(), low_rank, rtol=1e-5)


@pytest.mark.parametrize("hidden", [False, True])
def test_it_finds_the_subspace_better(hidden):
    signal, X = noisy()
    truth = np.linalg.svd(signal - signal.mean(0), full_matrices=False)[0][:, :2]
    if hidden:
        X = nf.datasets.hide(X, random_state=0)
    plain, better = (
        nf.PCA(2, diagonal=diagonal, assist=0, random_state=0).fit_transform(X) for diagonal in ("unbiased", "denoised")
    )
    assert angle(better, truth) < 0.85 * angle(plain, truth)


def test_rank_by_sign_flips_where_no_number_is_given():
    _, X = noisy()
    fitted = nf.PCA(0.5, diagonal="denoised", random_state=0).fit(X)
    assert fitted.n_components_ >= 1


def test_refusals():
    gram = nf.unbiased_gram(noisy()[1])
    with pytest.raises(ValueError, match=r"diagonal='denoised' needs between 1 and n_samples - 1 = 79 components"):
        denoised(gram, 80)
    with pytest.raises(ValueError, match="diagonal must be one of 'unbiased', 'denoised'; it is 'flat'"):
        nf.PCA(2, diagonal="flat").fit(noisy()[1])
    with pytest.warns(ConvergenceWarning, match="still moved after max_iter=1 rounds"):
        denoised(gram, 5, max_iter=1)
