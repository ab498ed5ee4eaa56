"""What nanfold is compared with: imputation and dissimilarities by other methods."""

__all__: list[str] = []
