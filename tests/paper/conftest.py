"""Fixtures of the paper's tests: small sets of the kinds that the paper has."""

import numpy as np
import pytest
from made_up import expression

from nanfold.paper.subject import Subject


@pytest.fixture
def cells() -> Subject:
    counts, labels = expression()
    return Subject(np.log2(1 + counts), labels, 0, counts)


@pytest.fixture
def images() -> Subject:
    rng = np.random.default_rng(1)
    labels = np.arange(60) % 3
    return Subject(3.0 + rng.normal(size=(3, 40))[labels] * 3 + rng.normal(size=(60, 40)), labels, 0)


@pytest.fixture
def folder(tmp_path):
    """A folder that holds one set of expression, under the name of a stand-in."""
    counts, labels = expression()
    path = tmp_path / "data"
    path.mkdir()
    np.savez(path / "yan90.npz", X=counts, labels=labels)
    return path
