"""A table studied by several methods: what ``nanfold embed`` does, and everything that it writes but the report.

`settings` is what can be asked for, `fitting` fits, and the others each say one thing about what came out.
"""
