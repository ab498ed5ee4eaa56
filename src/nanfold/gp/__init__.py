"""Gaussian process latent variables from a factor of the Gram matrix."""
