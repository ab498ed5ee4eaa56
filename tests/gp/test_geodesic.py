"""Positions along a graph of neighbours."""

import numpy as np
import pytest
from scipy.spatial import procrustes

from nanfold.gp import geodesic
from nanfold.gp.geodesic import even_rows, geodesic_positions
from nanfold.gp.problem import Factor
from nanfold.gp.start import initial_positions


@pytest.fixture(scope="module")
def roll() -> tuple[np.ndarray, np.ndarray]:
    """A sheet rolled up in three of thirty dimensions, with noise in all, and where its samples lie on it."""
    rng = np.random.default_rng(0)
    angle, width = rng.uniform(1.5 * np.pi, 3.5 * np.pi, 400), rng.uniform(0, 20, 400)
    Z = 0.1 * rng.normal(size=(400, 30))
    Z[:, :3] += np.stack([angle * np.cos(angle), width, angle * np.sin(angle)], axis=1)
    along = (angle * np.sqrt(1 + angle**2) + np.arcsinh(angle)) / 2
    return Z - Z.mean(axis=0), np.stack([along, width], axis=1)


def disparity(X: np.ndarray, positions: np.ndarray) -> float:
    return procrustes(positions / positions.std(axis=0), X)[2]


def test_a_rolled_sheet_is_unrolled(roll):
    Z, positions = roll
    factor = Factor(Z, 30)
    assert disparity(initial_positions(factor, 2), positions) > 0.2
    X = geodesic_positions(factor, 2)
    assert disparity(X, positions) < 0.02
    np.testing.assert_allclose(X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose((X**2).mean(axis=0), 1)


def test_noise_that_all_distances_share_is_taken_off(roll):
    Z, positions = roll
    # each sample has a large dimension to itself, which adds 32 to every squared distance
    apart = np.hstack([Z, 4.0 * np.eye(400)])
    assert disparity(geodesic_positions(Factor(apart, 30), 2), positions) < 0.02


def test_some_samples_carry_the_others(roll, monkeypatch):
    Z, positions = roll
    monkeypatch.setattr(geodesic, "MOST_LANDMARKS", 250)
    assert disparity(geodesic_positions(Factor(Z, 30), 2), positions) < 0.03


def test_clusters_and_duplicates_are_linked():
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0, 0], [50, 0, 0], [0, 70, 0]])
    Z = np.repeat(centres, 40, axis=0)
    Z[::2] += rng.normal(size=(60, 3))
    X = geodesic_positions(Factor(Z, 3), 2)
    assert np.all(np.isfinite(X))
    means = X.reshape(3, 40, 2).mean(axis=1)
    nearest = np.linalg.norm(X[:, None] - means, axis=2).argmin(axis=1)
    assert np.array_equal(nearest, np.repeat([0, 1, 2], 40))
    # what is the same in the data is at the same place
    assert np.ptp(X.reshape(3, 40, 2)[:, 1::2], axis=1).max() < 1e-3


def test_a_graph_of_fewer_dimensions_says_so():
    line = np.linspace(0, 1, 30)[:, None] * [[1.0, 0, 0]]
    assert geodesic_positions(Factor(line, 3), 2) is None
    assert geodesic_positions(Factor(line, 3), 1).shape == (30, 1)
    assert geodesic_positions(Factor(np.array([[0.0], [1.0]]), 3), 1).shape == (2, 1)


def test_rows_are_spread_evenly():
    assert np.array_equal(even_rows(3, 5), np.arange(3))
    rows = even_rows(1001, 11)
    assert np.array_equal(rows, np.arange(0, 1001, 100))
    assert len(np.unique(even_rows(301, 300))) == 300
