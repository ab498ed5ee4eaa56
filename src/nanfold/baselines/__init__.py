"""What nanfold is compared with: imputation and dissimilarities by other methods."""

from nanfold.baselines.chained_equations import ChainedEquations
from nanfold.baselines.cidr import CIDR
from nanfold.baselines.dissimilarity import embed_dissimilarity
from nanfold.baselines.sc_impute import ScImpute
from nanfold.baselines.soft_impute import SoftImpute

__all__ = ["CIDR", "ChainedEquations", "ScImpute", "SoftImpute", "embed_dissimilarity"]
