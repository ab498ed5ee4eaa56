"""Data to try things on: the paper's simulation, hiding entries, and the paper's real sets."""

from nanfold.datasets.dataset import Dataset, preprocess
from nanfold.datasets.real import load
from nanfold.datasets.simulate import hide, make_clusters

__all__ = ["Dataset", "hide", "load", "make_clusters", "preprocess"]
