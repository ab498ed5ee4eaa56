"""Filling holes by a low-rank reconstruction, with the uncertainty of every filled entry."""

from nanfold.imputation.filling import Filled, HeldOutCheck, check_on_held_out, fill, held_out_rank
from nanfold.imputation.low_rank import LowRank, fit_low_rank

__all__ = ["Filled", "HeldOutCheck", "LowRank", "check_on_held_out", "fill", "fit_low_rank", "held_out_rank"]
