"""CIDR's rules for how many principal coordinates to keep and how many clusters to cut."""

import numpy as np
from scipy.cluster.hierarchy import cut_tree


def choose_n_components(variation: np.ndarray) -> int:
    """Return how many coordinates to keep, from the shares of variation: the last before a long run of small drops.

    The smallest tenth of the shares is left out. A drop is small if it is less than the largest one over 5 or 10.
    Coordinates without a large drop between them form a group; the walk ends inside the first group that grows long,
    and keeps what comes before it. 4 where it never ends, where all drops are alike, and where it would keep 1.
    """
    drops = -np.diff(variation[: int(0.9 * len(variation))])
    if len(drops) < 3:
        raise ValueError(
            f"{len(variation)} positive eigenvalues are too few to choose n_components from: give n_components."
        )
    spread = 100 * drops.mean() / np.sort(drops)[-3:].mean()
    if spread > 15:
        return 4
    small = drops < drops.max() / (5 if spread > 10 else 10)
    size, last_of_previous = 1, 0
    for i in range(2, len(drops) + 2):
        if not small[i - 2]:
            size, last_of_previous = 1, i - 1
            continue
        size += 1
        if size > 7 or (i > 10 and size > 3):
            return last_of_previous if last_of_previous > 1 else 4
    return 4


def calinski_harabasz(embedding: np.ndarray, tree: np.ndarray, most: int) -> np.ndarray:
    """Return CH(k) = (B / (k - 1)) / (W / (n - k)), rounded to 4 decimals, of the tree cut into k = 2..most groups.

    The first entry, k = 1, is NaN: it is not defined.
    """
    n = len(embedding)
    centred = embedding - embedding.mean(axis=0)
    total = np.sum(centred**2)
    index = np.full(most, np.nan)
    for k, groups in enumerate(cut_tree(tree, np.arange(2, most + 1)).T, start=2):
        sums = np.zeros((k, embedding.shape[1]))
        np.add.at(sums, groups, centred)
        between = np.sum(sums**2 / np.bincount(groups)[:, None])
        index[k - 1] = np.round((between / (k - 1)) / ((total - between) / (n - k)), 4)
    return index


def choose_n_clusters(index: np.ndarray) -> int:
    """Return how many clusters to cut from CH(1), CH(2), ...: where it bends down most, or next most after that.

    s_i = CH(i+1) - 2 CH(i+2) + CH(i+3) is centred at k = i + 2. The smallest s wins, unless the smallest one
    after it is more than a third as deep. At least 3.
    """
    bends = np.diff(index[1:], 2)
    first = int(np.argmin(bends))
    if first + 1 == len(bends):
        raise ValueError(
            "The Calinski-Harabasz index bends down most at its last number of clusters, so that the rule "
            "has no answer: give n_clusters."
        )
    second = first + 1 + int(np.argmin(bends[first + 1 :]))
    return (second if 3 * bends[second] < bends[first] else first) + 3
