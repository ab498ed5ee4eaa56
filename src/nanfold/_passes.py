"""The numba kernels of products with stored entries: bare loops over a range of rows, several vectors at a time.

Rows are visited in blocks and columns in tiles, so that the rows of the panels (W, A) that a tile touches stay in the
cache while a block of rows passes over them. ``cuts[i, t] : cuts[i, t + 1]`` are the stored entries of row i in tile t;
tiles are cut for the widest vectors, and as many more are taken together as vectors are shorter. `lanes` is a tuple as
long as the panels are wide.

Processors foresee which entries come next within a row, and not where the next row goes on in the same tile: while a
row is passed over, the entries of the next one are brought near.

With mu None, an entry x counts as it is. With weights None, as x - mu_s. Otherwise it is what x adds to the -w mu_s of
an unstored entry, w the weight of the row's group: m (x - mu_s) + w mu_s, with m = 0 for a NaN; a zero adds nothing.
"""

from typing import Any

import numba
import numpy as np

from nanfold._vectors import WIDTHS, at, cell, load, nothing, plus, prefetch, store

kernel: Any = numba.njit(cache=True, nogil=True)
device: Any = numba.njit(nogil=True, forceinline=True)

# Rows of a block: enough to make use of a tile that was fetched, and few enough for their entries to stay near while
# all tiles are visited.
BLOCK = 256


@kernel
def cut_rows(indptr, indices, width, cuts, start, stop):
    """Where the stored entries of each row, sorted by column, pass from one tile of columns to the next."""
    tiles = cuts.shape[1] - 1
    for i in range(start, stop):
        p, end = indptr[i], indptr[i + 1]
        cuts[i, 0] = p
        for t in range(1, tiles):
            while p < end and indices[p] < t * width:
                p += 1
            cuts[i, t] = p
        cuts[i, tiles] = end


@device
def added(x, s, i, mu, group, weights):
    """What a stored entry adds to the row of an unstored one."""
    y = np.float64(x)
    if mu is None:
        return y
    if weights is None:
        return y - at(mu, s)
    if y == 0.0:
        return 0.0
    zero = np.float64(cell(weights, at(group, i), s)) * at(mu, s)
    return zero if np.isnan(y) else zero + (y - at(mu, s))


@device
def gather(z, i, start, stop, ahead, indices, data, mu, group, weights, W, lanes):
    """z + the sum over the entries of y_is W_s; entries so far ahead are brought near meanwhile."""
    other = nothing(lanes)
    even = start + (stop - start) // 4 * 4
    # Two sums, as one would wait for each addition in turn.
    for p in range(start, even, 4):
        prefetch(indices, p + ahead)
        prefetch(data, p + ahead)
        s, t, u, v = at(indices, p), at(indices, p + 1), at(indices, p + 2), at(indices, p + 3)
        z = plus(z, added(at(data, p), s, i, mu, group, weights), load(W, s, lanes))
        other = plus(other, added(at(data, p + 1), t, i, mu, group, weights), load(W, t, lanes))
        z = plus(z, added(at(data, p + 2), u, i, mu, group, weights), load(W, u, lanes))
        other = plus(other, added(at(data, p + 3), v, i, mu, group, weights), load(W, v, lanes))
    for p in range(even, stop):
        s = at(indices, p)
        z = plus(z, added(at(data, p), s, i, mu, group, weights), load(W, s, lanes))
    return plus(z, 1.0, other)


@device
def scatter(z, i, start, stop, ahead, indices, data, mu, group, weights, A, lanes):
    """Add y_is z to A_s for every entry; entries so far ahead are brought near meanwhile."""
    even = start + (stop - start) // 4 * 4
    for p in range(start, even, 4):
        prefetch(indices, p + ahead)
        prefetch(data, p + ahead)
        for q in range(p, p + 4):
            s = at(indices, q)
            store(plus(load(A, s, lanes), added(at(data, q), s, i, mu, group, weights), z), A, s)
    for p in range(even, stop):
        s = at(indices, p)
        store(plus(load(A, s, lanes), added(at(data, p), s, i, mu, group, weights), z), A, s)


@device
def to_next(i, last, t, cuts):
    """How far after the entries of a row in tile t those of the next row of the block are."""
    return cuts[min(i + 1, last - 1), t] - cuts[i, t]


@device
def gather_rows(first, last, cuts, indices, data, mu, group, weights, W, out, lanes):
    """out_i = sum over the entries of y_is W_s, for a block of rows."""
    tiles, together = cuts.shape[1] - 1, WIDTHS[-1] // len(lanes)
    for t in range(0, tiles, together):
        u = min(t + together, tiles)
        for i in range(first, last):
            ahead = to_next(i, last, t, cuts)
            z = load(out, i, lanes) if t > 0 else nothing(lanes)
            z = gather(z, i, cuts[i, t], cuts[i, u], ahead, indices, data, mu, group, weights, W, lanes)
            store(z, out, i)


@device
def scatter_rows(first, last, cuts, indices, data, mu, group, weights, U, scale, A, lanes):
    """Add y_is scale_i U_i to A_s, for a block of rows; scale None for 1."""
    tiles, together = cuts.shape[1] - 1, WIDTHS[-1] // len(lanes)
    for t in range(0, tiles, together):
        u = min(t + together, tiles)
        for i in range(first, last):
            ahead = to_next(i, last, t, cuts)
            z = load(U, i, lanes)
            if scale is not None:
                z = plus(nothing(lanes), scale[i], z)
            scatter(z, i, cuts[i, t], cuts[i, u], ahead, indices, data, mu, group, weights, A, lanes)


@kernel
def matmul(cuts, indices, data, mu, group, weights, W, out, lanes, start, stop):
    """out_i = sum over the entries of y_is W_s."""
    for first in range(start, stop, BLOCK):
        last = min(first + BLOCK, stop)
        gather_rows(first, last, cuts, indices, data, mu, group, weights, W, out, lanes)


@kernel
def rmatmul(cuts, indices, data, mu, group, weights, U, A, lanes, start, stop):
    """Add y_is U_i to A_s for every entry."""
    for first in range(start, stop, BLOCK):
        last = min(first + BLOCK, stop)
        scatter_rows(first, last, cuts, indices, data, mu, group, weights, U, None, A, lanes)


@kernel
def normal_pass(cuts, indices, data, mu, group, weights, W, offset, Q, scale, shift, Z, A, lanes, start, stop):
    """Z_i = scale_i (sum over the entries of y_is W_s + offset_g) + shift_i Q_i; add y_is scale_i Z_i to A_s.

    offset_g has a row for every group, or is None.
    """
    for first in range(start, stop, BLOCK):
        last = min(first + BLOCK, stop)
        gather_rows(first, last, cuts, indices, data, mu, group, weights, W, Z, lanes)
        for i in range(first, last):
            z = load(Z, i, lanes)
            if offset is not None:
                z = plus(z, 1.0, load(offset, group[i], lanes))
            z = plus(plus(nothing(lanes), scale[i], z), shift[i], load(Q, i, lanes))
            store(z, Z, i)
        scatter_rows(first, last, cuts, indices, data, mu, group, weights, Z, scale, A, lanes)
