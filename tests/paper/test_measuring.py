"""A batch of jobs: what is found, and what becomes of a job that fails."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

import nanfold as nf
from nanfold.paper import measuring
from nanfold.paper.measuring import measure
from nanfold.paper.protocol import Batch
from nanfold.paper.subject import VIEWS


def measured(subject, *methods, variant="corrected", repetition=0):
    return list(measure(Batch("yan90", variant, repetition, methods), lambda: subject, "cells"))


def test_the_number_is_that_of_k_means_on_the_scores(cells):
    (result,) = measured(cells, "pca")
    mask = nf.Dropouts(rule="vote", random_state=0).fit(cells.X)
    pca = nf.PCA("cng", assist=0, observation="rank-one-bounded", random_state=0)
    scores = pca.fit_transform(cells.X, mask=mask)
    found = KMeans(3, n_init=30, random_state=0).fit_predict(scores)
    assert result.ari == adjusted_rand_score(cells.labels, found)
    assert (result.n_components, result.seed, result.fingerprint) == (scores.shape[1], 0, "cells")
    assert f"numpy {np.__version__}" in result.versions
    assert result.seconds > 0
    assert result.shared_seconds > 0


def test_positions_are_kept_in_the_first_repetition_alone(cells):
    first, later = measured(cells, "pca")[0], measured(cells, "pca", repetition=1)[0]
    assert np.shape(first.positions) == (45, 2)
    assert sorted(set(first.labels)) == [0, 1, 2]
    assert later.positions is later.labels is None


class Failing:
    notes = ()

    def embed(self, method):
        if method == "gplvm":
            raise ValueError("The covariance\n is singular.")
        return np.full((45, 2), np.nan) if method == "tsne" else np.random.default_rng(0).normal(size=(45, 2))


def test_a_job_that_fails_says_why_and_the_others_go_on(cells, monkeypatch):
    monkeypatch.setitem(VIEWS, "corrected", lambda subject: Failing())
    singular, nowhere, fine = measured(cells, "gplvm", "tsne", "pca")
    assert (singular.ari, singular.reason) == (None, "ValueError: The covariance is singular.")
    assert (nowhere.ari, nowhere.reason) == (None, "ValueError: the position of sample 0 is not finite")
    assert fine.reason is None
    assert abs(fine.ari) < 0.5


@pytest.mark.parametrize("error", [MemoryError(), ZeroDivisionError("division by zero")])
def test_what_cannot_be_prepared_fails_every_job_of_the_batch(error, cells, monkeypatch):
    def view(subject):
        raise error

    monkeypatch.setitem(VIEWS, "corrected", view)
    results = measured(cells, "pca", "tsne")
    reason = "ran out of memory" if isinstance(error, MemoryError) else "ZeroDivisionError: division by zero"
    assert [result.reason for result in results] == [reason] * 2


def test_warnings_become_notes(cells, monkeypatch):
    def work():
        import warnings

        warnings.warn("It did not converge.", UserWarning, stacklevel=1)
        return 1

    value, attempt = measuring.attempted(work)
    assert (value, attempt.notes, attempt.reason) == (1, ("It did not converge.",), None)
