"""What the libraries warn of, as lines on stderr in place of Python's two."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def notes(command: str) -> Iterator[None]:
    """Print each distinct warning for users at the end; those for developers are left out."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        yield
    said = dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught)
    for message in said:
        print(f"nanfold {command}: note: {message}", file=sys.stderr)
