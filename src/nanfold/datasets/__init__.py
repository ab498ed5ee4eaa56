"""Data to try things on: the paper's simulation, and hiding entries."""

from nanfold.datasets.simulate import hide, make_clusters

__all__ = ["hide", "make_clusters"]
