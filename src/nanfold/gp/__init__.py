"""Gaussian process latent variables (GPLVM) from a factor Z of the Gram matrix and the number of features d.

`problem.Factor` holds the data. `fit.fit` maximises the objective (`exact`, or `sparse` with inducing inputs): `start`
and `geodesic` say where that may begin, `trials` choose, and `climb` goes on from there. `predict.locate` places new
samples. `kernels` are the covariances.
"""
