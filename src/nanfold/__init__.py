"""Dimension reduction for data with holes, without filling them in."""

__version__ = "0.1.0"
