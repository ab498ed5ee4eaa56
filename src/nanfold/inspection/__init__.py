"""Looking at a table with holes before anything is fitted to it: where the holes are, and whether that can be modelled.

One question a module; `examine` asks them all.
"""
