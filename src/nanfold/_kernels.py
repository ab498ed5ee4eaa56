"""The numba kernels, and nothing but kernels: bare loops over a range of rows, called from several threads at once.

Notation: X is stored by rows (indptr, indices, data), mu has one value a column, W has one row of weights a group
of rows, and group[i] is the group of row i. A stored NaN is a hole; a stored zero counts as an unstored one.
"""

from typing import Any

import numba
import numpy as np

kernel: Any = numba.njit(cache=True, nogil=True)
# Sums in any order, which is what lets a dot product use the vector units. NaN and infinity stay what they are.
reordering_kernel: Any = numba.njit(cache=True, nogil=True, fastmath={"reassoc", "nsz"})


@kernel
def dense_summaries(X, row_count, column_count, column_sum, start, stop):
    """Count the known entries of rows and columns, add up the columns; return whether an infinity was among them.

    Without branches, so that the loop over columns is done several at a time.
    """
    infinite = False
    for i in range(start, stop):
        seen = 0
        for s in range(X.shape[1]):
            x = np.float64(X[i, s])
            known = x == x
            y = x if known else 0.0
            seen += known
            column_count[s] += known
            column_sum[s] += y
            infinite |= y - y != 0.0
        row_count[i] = seen
    return infinite


@kernel
def dense_center(X, mu, Y, mask, row_square, start, stop):
    """Y <- M * (X - mu), with M = not isnan(X) written out, and the squared norms of the rows of Y; Y may be X."""
    d = X.shape[1]
    for i in range(start, stop):
        for s in range(d):
            x = X[i, s]
            known = x == x
            mask[i, s] = known
            Y[i, s] = x - mu[s] if known else 0.0
        # Four sums at a time, as one would wait for each addition in turn.
        a, b, c, e = 0.0, 0.0, 0.0, 0.0
        for s in range(0, d - 3, 4):
            a += np.float64(Y[i, s]) ** 2
            b += np.float64(Y[i, s + 1]) ** 2
            c += np.float64(Y[i, s + 2]) ** 2
            e += np.float64(Y[i, s + 3]) ** 2
        for s in range(d - d % 4, d):
            a += np.float64(Y[i, s]) ** 2
        row_square[i] = (a + b) + (c + e)


@kernel
def stored_summaries(indptr, indices, data, row_count, column_count, column_sum, start, stop):
    """Count the stored entries of rows and columns and add up the columns; return the first bad entry's position."""
    for i in range(start, stop):
        for p in range(indptr[i], indptr[i + 1]):
            x = data[p]
            if not np.isfinite(x):
                return p
            s = indices[p]
            column_count[s] += 1
            column_sum[s] += x
        row_count[i] = indptr[i + 1] - indptr[i]
    return -1


@kernel
def pattern_matmul(indptr, indices, V, out, start, stop):
    """out_i = sum over stored s of V_s."""
    k = V.shape[1]
    for i in range(start, stop):
        for c in range(k):
            out[i, c] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            s = indices[p]
            for c in range(k):
                out[i, c] += V[s, c]


@kernel
def pattern_rmatmul(indptr, indices, U, out, start, stop):
    """Accumulate U_i into out_s over the stored entries."""
    k = U.shape[1]
    for i in range(start, stop):
        for p in range(indptr[i], indptr[i + 1]):
            s = indices[p]
            for c in range(k):
                out[s, c] += U[i, c]


@kernel
def stored_row_squares(indptr, indices, data, mu, out, start, stop):
    """out_i = sum over stored s of (x_is - mu_s)^2."""
    for i in range(start, stop):
        total = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            y = data[p] - mu[indices[p]]
            total += y * y
        out[i] = total


@kernel
def stored_residual(indptr, indices, data, mu, U, V, out, start, stop):
    """out_p = (x_is - mu_s) - U_i . V_s at every stored entry p = (i, s)."""
    k = V.shape[1]
    for i in range(start, stop):
        for p in range(indptr[i], indptr[i + 1]):
            s = indices[p]
            fit = 0.0
            for c in range(k):
                fit += U[i, c] * V[s, c]
            out[p] = data[p] - mu[s] - fit


@kernel
def stored_row_normals(indptr, indices, V, out, offset, start, stop):
    """out_{i - offset} = sum over stored s of V_s V_s' (lower triangle only)."""
    k = V.shape[1]
    for i in range(start, stop):
        for p in range(indptr[i], indptr[i + 1]):
            s = indices[p]
            for a in range(k):
                for b in range(a + 1):
                    out[i - offset, a, b] += V[s, a] * V[s, b]


@kernel
def stored_column_normals(indptr, indices, U, out, first, start, stop):
    """Add the lower triangle of U_i U_i' to out_{s - first} over the stored entries of len(out) columns."""
    pairs = np.empty(out.shape[1])
    for i in range(start, stop):
        c = 0
        for a in range(U.shape[1]):
            for b in range(a + 1):
                pairs[c] = U[i, a] * U[i, b]
                c += 1
        for p in range(indptr[i], indptr[i + 1]):
            s = indices[p] - first
            if s < 0 or s >= out.shape[0]:
                continue
            for c in range(len(pairs)):
                out[s, c] += pairs[c]


@kernel
def grouped_summaries(indptr, indices, data, group, W, row_count, column_count, column_square, column_sum, start, stop):
    """Correct the counts of an all-zero row of its group for the entries stored; return the first bad position.

    A non-zero entry has weight 1 in place of W, a NaN weight 0.
    """
    for i in range(start, stop):
        for p in range(indptr[i], indptr[i + 1]):
            x = data[p]
            if x == 0.0:
                continue
            if np.isinf(x):
                return p
            s = indices[p]
            w = np.float64(W[group[i], s])
            m = 0.0 if np.isnan(x) else 1.0
            row_count[i] += m - w
            column_count[s] += m - w
            column_square[s] += m - w * w
            if m > 0.0:
                column_sum[s] += x
    return -1


@kernel
def grouped_mask_matmul(indptr, indices, data, group, W, V, out, start, stop):
    """Add (m - w) V_s to out_i over the stored entries."""
    k = V.shape[1]
    for i in range(start, stop):
        for p in range(indptr[i], indptr[i + 1]):
            x = data[p]
            if x == 0.0:
                continue
            s = indices[p]
            m = (0.0 if np.isnan(x) else 1.0) - W[group[i], s]
            for c in range(k):
                out[i, c] += m * V[s, c]


@kernel
def grouped_mask_rmatmul(indptr, indices, data, group, W, U, out, start, stop):
    """Accumulate (m - w) U_i into out_s over the stored entries."""
    k = U.shape[1]
    for i in range(start, stop):
        for p in range(indptr[i], indptr[i + 1]):
            x = data[p]
            if x == 0.0:
                continue
            s = indices[p]
            m = (0.0 if np.isnan(x) else 1.0) - W[group[i], s]
            for c in range(k):
                out[s, c] += m * U[i, c]


@kernel
def grouped_row_squares(indptr, indices, data, group, W, mu, out, start, stop):
    """Add (x - mu_s)^2 - (w mu_s)^2 to out_i over the stored entries."""
    for i in range(start, stop):
        for p in range(indptr[i], indptr[i + 1]):
            x = data[p]
            if x == 0.0:
                continue
            s = indices[p]
            zero = W[group[i], s] * mu[s]
            out[i] -= zero * zero
            if not np.isnan(x):
                out[i] += (x - mu[s]) ** 2


@kernel
def grouped_row_normals(indptr, indices, data, group, W, V, out, offset, start, stop):
    """Add (m - w) V_s V_s' to out_{i - offset} over the stored entries (lower triangle only)."""
    k = V.shape[1]
    for i in range(start, stop):
        for p in range(indptr[i], indptr[i + 1]):
            x = data[p]
            if x == 0.0:
                continue
            s = indices[p]
            m = (0.0 if np.isnan(x) else 1.0) - W[group[i], s]
            if m == 0.0:
                continue
            for a in range(k):
                v = m * V[s, a]
                for b in range(a + 1):
                    out[i - offset, a, b] += v * V[s, b]


@kernel
def grouped_column_normals(indptr, indices, data, group, W, U, out, first, start, stop):
    """Accumulate (m - w) U_i U_i' into out_{s - first} over the stored entries of len(out) columns (lower triangle)."""
    k = U.shape[1]
    for i in range(start, stop):
        for p in range(indptr[i], indptr[i + 1]):
            x = data[p]
            if x == 0.0:
                continue
            s = indices[p] - first
            if s < 0 or s >= out.shape[0]:
                continue
            m = (0.0 if np.isnan(x) else 1.0) - W[group[i], s + first]
            if m == 0.0:
                continue
            for a in range(k):
                u = m * U[i, a]
                for b in range(a + 1):
                    out[s, a, b] += u * U[i, b]


@reordering_kernel
def pair_dots(A, B, row, candidate, out, start, stop):
    """out_pc = A_i . B_j for i = row_p and j = candidate_pc."""
    for p in range(start, stop):
        i = row[p]
        for c in range(candidate.shape[1]):
            j = candidate[p, c]
            total = 0.0
            for s in range(A.shape[1]):
                total += np.float64(A[i, s]) * np.float64(B[j, s])
            out[p, c] = total


@kernel
def stored_pair_dots(indptr, indices, data, mu, row, candidate, out, start, stop):
    """out_pc = sum over s stored in both of (x_is - mu_s)(x_js - mu_s), for i = row_p and j = candidate_pc."""
    y = np.zeros(len(mu))
    for p in range(start, stop):
        i = row[p]
        for q in range(indptr[i], indptr[i + 1]):
            y[indices[q]] = data[q] - mu[indices[q]]
        for c in range(candidate.shape[1]):
            j = candidate[p, c]
            total = 0.0
            for q in range(indptr[j], indptr[j + 1]):
                s = indices[q]
                total += y[s] * (data[q] - mu[s])
            out[p, c] = total
        for q in range(indptr[i], indptr[i + 1]):
            y[indices[q]] = 0.0


@reordering_kernel
def grouped_pair_dots(indptr, indices, data, group, W, mu, row, candidate, out, start, stop):
    """out_pc = Y_i . Y_j for i = row_p and j = candidate_pc, with Y_is = -W_gs mu_s wherever nothing is stored.

    Y_i is laid out densely once. Y_j is that of a row of zeros, whose product with Y_i is the same for every j of a
    group, plus (m (x_js - mu_s) + w mu_s) at the stored entries.
    """
    d = len(mu)
    y = np.empty(d)
    of_zeros = np.empty(len(W))
    known_for = np.full(len(W), -1)
    for p in range(start, stop):
        i = row[p]
        for s in range(d):
            y[s] = -W[group[i], s] * mu[s]
        for q in range(indptr[i], indptr[i + 1]):
            x = data[q]
            if x != 0.0:
                y[indices[q]] = 0.0 if np.isnan(x) else x - mu[indices[q]]
        for c in range(candidate.shape[1]):
            j = candidate[p, c]
            t = group[j]
            if known_for[t] != p:
                total = 0.0
                for s in range(d):
                    total -= W[t, s] * mu[s] * y[s]
                of_zeros[t], known_for[t] = total, p
            total = of_zeros[t]
            for q in range(indptr[j], indptr[j + 1]):
                x = data[q]
                if x == 0.0:
                    continue
                s = indices[q]
                change = W[t, s] * mu[s]
                if not np.isnan(x):
                    change += x - mu[s]
                total += change * y[s]
            out[p, c] = total


@kernel
def nearest_others(G, diagonal, row, indices, values, start, stop):
    """For i = row_p, the j != i of the smallest G_ii + G_jj - 2 G_ij in order; G holds the rows i; ties: small j."""
    k = indices.shape[1]
    for p in range(start, stop):
        i = row[p]
        found = 0
        for j in range(G.shape[1]):
            if j == i:
                continue
            value = diagonal[i] + diagonal[j] - 2.0 * G[p, j]
            if found == k and not value < values[p, k - 1]:
                continue
            at = found if found < k else k - 1
            while at > 0 and value < values[p, at - 1]:
                values[p, at], indices[p, at] = values[p, at - 1], indices[p, at - 1]
                at -= 1
            values[p, at], indices[p, at] = value, j
            if found < k:
                found += 1


@kernel
def cholesky_solve(A, b, start, stop):
    """b_i <- A_i^-1 b_i in place for symmetric positive definite A_i, whose upper triangles become U of A = U'U.

    Returns the first i whose matrix is not positive definite, or -1.
    """
    k = A.shape[1]
    for i in range(start, stop):
        for p in range(k):
            pivot = A[i, p, p]
            if not pivot > 0.0:
                return i
            root = np.sqrt(pivot)
            for c in range(p, k):
                A[i, p, c] /= root
            for r in range(p + 1, k):
                factor = A[i, p, r]
                for c in range(r, k):
                    A[i, r, c] -= factor * A[i, p, c]
        for p in range(k):
            b[i, p] /= A[i, p, p]
            for c in range(p + 1, k):
                b[i, c] -= A[i, p, c] * b[i, p]
        for p in range(k - 1, -1, -1):
            for c in range(p + 1, k):
                b[i, p] -= A[i, p, c] * b[i, c]
            b[i, p] /= A[i, p, p]
    return -1
