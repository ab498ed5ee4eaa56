"""Tables in files, written and compared."""

from pathlib import Path

import numpy as np
from scipy import sparse

from nanfold.io import Table


def written(folder: Path, content: str | bytes, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def is_table(table: Table, X, samples=None, features=None) -> None:
    values = table.X.toarray() if sparse.issparse(table.X) else table.X
    assert np.array_equal(values, np.array(X, dtype=float), equal_nan=True)
    assert (table.sample_names, table.feature_names) == (samples, features)
