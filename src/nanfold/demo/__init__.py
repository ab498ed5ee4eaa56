"""The demonstration: the paper's simulated clusters with 40 % of the entries hidden, and four ways of doing PCA.

`comparison` computes, `pictures` draws, `page` writes the report; ``nanfold demo`` puts them together.
"""
