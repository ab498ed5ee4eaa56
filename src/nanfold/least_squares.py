"""Ridge least squares over what was observed: rows given the columns' factors, and columns given the rows'."""

from collections.abc import Callable

import numpy as np

from nanfold import _kernels
from nanfold._threads import even_blocks, n_threads, run_blocks
from nanfold.observed import Observed
from nanfold.observed.contract import PANEL_VALUES


def solve_rows(observed: Observed, V: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    """For every row i the z that minimises sum_s M_is (y_is - z.V_s)^2 + sum_a ridge_ia z_a^2.

    Parameters
    ----------
    observed : Y and M
    V : (d, k) factors of the columns
    ridge : (n, k), or anything that broadcasts to it
    """
    ridge = np.broadcast_to(ridge, (observed.shape[0], V.shape[1]))
    return observed.over_rows(_solved_rows, (ridge,), (V,))


def _solved_rows(observed: Observed, ridge: np.ndarray, V: np.ndarray) -> np.ndarray:
    batch = max(1, PANEL_VALUES // V.shape[1] ** 2)
    return _solve(observed.row_normals, observed.matmul(V), V, ridge, batch)


def solve_columns(observed: Observed, U: np.ndarray, ridge: np.ndarray, right: np.ndarray | None = None) -> np.ndarray:
    """For every column s the v that minimises sum_i M_is (y_is - U_i.v)^2 + sum_a ridge_sa v_a^2.

    Parameters
    ----------
    observed : Y and M
    U : (n, k) factors of the rows
    ridge : (d, k), or anything that broadcasts to it
    right : Y' U if it is known already; it is overwritten
    """
    batch = observed.column_batch(U.shape[1])
    return _solve(observed.column_normals, observed.rmatmul(U) if right is None else right, U, ridge, batch)


def _solve(
    normals: Callable[[np.ndarray, int, int], np.ndarray],
    right: np.ndarray,
    factors: np.ndarray,
    ridge: np.ndarray,
    batch: int,
) -> np.ndarray:
    """Overwrite `right` by the solutions, so many systems at a time."""
    count, k = right.shape
    ridge = np.broadcast_to(ridge, (count, k))
    for start, stop in even_blocks(count, batch):
        matrices = normals(factors, start, stop)
        matrices[:, np.arange(k), np.arange(k)] += ridge[start:stop]
        _solve_in_place(matrices, right[start:stop])
    return right


def _solve_in_place(matrices: np.ndarray, right: np.ndarray) -> None:
    """Overwrite each right side by the solution of its symmetric positive definite system, on all threads."""
    blocks = even_blocks(len(matrices), max(1, -(-len(matrices) // n_threads())))
    stuck = run_blocks(lambda a, b: _kernels.cholesky_solve(matrices, right, a, b), blocks)
    if max(stuck) >= 0:
        raise np.linalg.LinAlgError(
            "A least-squares system is singular: a row or column has fewer observed entries than there are components "
            "and no ridge; use fewer components."
        )
