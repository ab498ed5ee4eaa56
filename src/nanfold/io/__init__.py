"""Reading tables from files: `read_table` gives a `Table`, whatever the format.

One format family a module; `formats` tells which it is, `columns` tells features from labels and names.
"""

from nanfold.io.formats import KINDS
from nanfold.io.reading import read_table
from nanfold.io.table import FileError, Table

__all__ = ["KINDS", "FileError", "Table", "read_table"]
