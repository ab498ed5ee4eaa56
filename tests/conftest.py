"""Shared fixtures: the folder of real data, which only some machines have."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets beside the checkout; tests that need it skip where it is absent."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip("the folder of real data sets is absent")
    return folder


@pytest.fixture(scope="session")
def oracles() -> Path:
    """The folder of the original programs' answers; tests that need it skip where it is absent."""
    folder = SHARED / "oracles"
    if not folder.is_dir():
        pytest.skip("the folder of oracles is absent")
    return folder
