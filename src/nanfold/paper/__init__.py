"""The paper's experiments again: what is compared, the runs, and the tables, figures and page made of them.

`protocol` says what is compared and `subject` what a method gets to see of the data; `measuring` does one job,
`workers` two at a time, `store` keeps what is done, and `running` puts these together. `simulation` and `real` are the
two studies; `compare`, `tables`, `figures` and `claims` are made of what was kept.
"""
