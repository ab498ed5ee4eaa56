"""Map over the row blocks of a Dask array and add: the one way in which data larger than memory are read.

A function sees one block of rows at a time, and returns what belongs to these rows and what is to be added up over all
blocks. Blocks are read wherever Dask has its workers; only what the function returns comes back. Sums are made in a
tree whose shape depends on the number of blocks alone, and each block is worked on by one thread, so that results do
not depend on who did what and when. Nothing is kept on a worker between two passes but constants that Dask can make
again, so that a worker that is lost costs its share of one pass and changes nothing.
"""

import dataclasses
import importlib.util
import itertools
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from threadpoolctl import threadpool_limits

from nanfold._threads import one_thread

# Arrays that belong to the rows of a block, and arrays to add up.
Arrays = tuple[np.ndarray, ...]
# (block, the number of its first row, what of each array by rows belongs to it, what is shared) -> (rows, sums)
BlockFunction = Callable[[Any, int, tuple, tuple], tuple[Arrays, Arrays]]
# So many partial sums are added by one task.
FAN_IN = 4


def is_dask(X: Any) -> bool:
    """Whether X is one of Dask's collections; Dask is not imported to find out."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr")


@dataclasses.dataclass(frozen=True)
class Step:
    """What a block goes through before a function sees it: ``make(block, start, by_row, shared)``."""

    make: Callable[[Any, int, tuple, tuple], Any]
    by_row: tuple
    shared: tuple


class RowBlocks:
    """The blocks of rows of a Dask array, each whole in its columns.

    Attributes
    ----------
    shape : (n, d)
    dtype : what Dask takes the values for
    edges : the first row of each block, and n
    """

    def __init__(self, X: Any) -> None:
        check_chunks(X)
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        sizes = X.chunks[0]
        self._blocks = [block for block, size in zip(X.to_delayed()[:, 0], sizes, strict=True) if size]
        self.edges = [0, *itertools.accumulate(int(size) for size in sizes if size)]
        self._steps: tuple[Step, ...] = ()
        self.dtype = X.dtype
        # Of the blocks themselves, whatever steps make of them.
        self._width = self.shape[1]

    @property
    def places(self) -> list[tuple[int, int]]:
        """The first row of each block, and the one after its last."""
        return list(itertools.pairwise(self.edges))

    def then(self, make: Callable[[Any, int, tuple, tuple], Any], by_row: Sequence = (), shared: Sequence = ()) -> Self:
        """The same rows, of each block what ``make(block, start, by_row, shared)`` returns, made anew in each pass.

        `by_row` and `shared` are as in ``map_add``.
        """
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        new._steps = (*self._steps, Step(make, tuple(by_row), tuple(constant(value) for value in shared)))
        return new

    def narrowed(self, d: int) -> Self:
        """These blocks, said to have d columns, which is what the last step has left of them."""
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        new.shape = (self.shape[0], d)
        return new

    def map_add(
        self,
        function: BlockFunction,
        by_row: Sequence = (),
        shared: Sequence = (),
        *,
        blocks: Sequence[int] | None = None,
    ) -> tuple[Arrays, Arrays]:
        """Call ``function(block, start, by_row, shared)`` for every block: one pass over the data.

        Parameters
        ----------
        function : returns two tuples of arrays, one by rows and one to be added up; it is sent to the workers, so it
            must be picklable
        by_row : arrays of n rows, or RowBlocks of the same chunks; the function gets the rows of its block
        shared : values that every block gets as they are
        blocks : the numbers of the blocks to see; None for all

        Returns
        -------
        Both tuples, the first one below the other and the second added up.
        """
        pick, add = _delayed(_pick), _delayed(_add)
        parts = self._parts(function, by_row, shared, range(len(self._blocks)) if blocks is None else blocks)
        rows = [pick(part, 0) for part in parts]
        sums = [pick(part, 1) for part in parts]
        while len(sums) > 1:
            sums = [add(sums[at : at + FAN_IN]) for at in range(0, len(sums), FAN_IN)]
        *above, total = compute(*rows, sums[0])
        return tuple(np.concatenate(pieces) for pieces in zip(*above, strict=True)), total

    def lazily(
        self,
        function: Callable[[Any, int, tuple, tuple], np.ndarray],
        width: int | None,
        dtype: np.dtype,
        by_row: Sequence = (),
        shared: Sequence = (),
    ) -> Any:
        """A Dask array, not computed yet, of what `function` returns for every block: so many columns, None for 1-d."""
        import dask.array as da

        _check_workers()
        parts = self._parts(function, by_row, shared, range(len(self._blocks)))
        tail = () if width is None else (width,)
        sizes = [stop - start for start, stop in self.places]
        return da.concatenate(
            [da.from_delayed(part, (size, *tail), dtype) for part, size in zip(parts, sizes, strict=True)]
        )

    def _parts(self, function: Callable, by_row: Sequence, shared: Sequence, chosen: Sequence[int]) -> list:
        """What `function` returns for each of the chosen blocks, as one task each."""
        layers = (*self._steps, Step(function, tuple(by_row), tuple(map(_wrapped, shared))))
        # One node of the graph, as what a function brings with it may be large.
        makes = _wrapped([layer.make for layer in layers])
        common = [list(layer.shared) for layer in layers]
        run = _delayed(_run)
        parts = []
        for b in chosen:
            start, stop = self.places[b]
            own = [[_piece(values, b, start, stop) for values in layer.by_row] for layer in layers]
            parts.append(run(self._blocks[b], start, (stop - start, self._width), makes, own, common))
        return parts


def _run(block: Any, start: int, shape: tuple[int, ...], makes: list, own: list, common: list) -> tuple[Arrays, Arrays]:
    """The task of a block: the steps, and the function at their end, in one thread."""
    if tuple(block.shape) != shape:
        raise ValueError(
            f"The chunk of X from row {start} on has the shape {tuple(block.shape)} in place of {shape}, which its "
            "Dask array says; correct the chunks that it was made with."
        )
    with one_thread():
        for make, by_row, shared in zip(makes, own, common, strict=True):
            block = make(block, start, tuple(by_row), tuple(shared))
    return block


def _pick(part: tuple, which: int) -> Arrays:
    return part[which]


def _add(parts: list[Arrays]) -> Arrays:
    """Add up in the order of the blocks; what came from elsewhere is not written to."""
    first, *others = parts
    if not others:
        return first
    out = tuple(np.array(values) for values in first)
    for other in others:
        for total, values in zip(out, other, strict=True):
            total += values
    return out


def _piece(values: Any, b: int, start: int, stop: int) -> Any:
    """What of an array by rows belongs to a block."""
    return values._blocks[b] if isinstance(values, RowBlocks) else values[start:stop]


def _delayed(function: Callable) -> Callable:
    from dask import delayed

    return delayed(function, pure=False)


def _wrapped(value: Any) -> Any:
    """A value as one node of the graph, that it be sent once and not with every block."""
    from dask import delayed

    return value if is_dask(value) else delayed(value, pure=False, traverse=False)


def constant(value: Any) -> Any:
    """A value for many passes, handed to Dask once: its scheduler can make it again wherever a worker is lost."""
    with _settings():
        return value if is_dask(value) else _wrapped(value).persist()


def compute(*values: Any) -> tuple:
    """The values of Dask's delayed objects, or one sentence if their scheduler is gone."""
    import dask

    try:
        _check_workers()
        with _settings():
            return dask.compute(*values)
    except Exception as error:
        if isinstance(error.__cause__, ModuleNotFoundError) and error.__cause__.name == "nanfold":
            raise RuntimeError(_not_installed("Dask's scheduler")) from error
        if not _scheduler_is_gone(error):
            raise
        raise RuntimeError(
            "Dask's scheduler, or the client that the data were persisted by, is gone; connect a new Client, and make "
            "or read the Dask array again."
        ) from error


# Clients whose workers were looked at.
_checked: weakref.WeakSet = weakref.WeakSet()


def _check_workers() -> None:
    """One sentence for workers that do not have nanfold, from which Dask would wait for an answer for ever."""
    from dask.base import get_scheduler

    # The method of a client, where Dask works by one.
    client = getattr(get_scheduler(), "__self__", None)
    if client is None or not hasattr(client, "run") or client in _checked:
        return
    found = client.run(importlib.util.find_spec, "nanfold")
    without = [address for address, spec in found.items() if spec is None]
    if without:
        raise RuntimeError(_not_installed(f"Dask's worker {without[0]}"))
    _checked.add(client)


def _not_installed(where: str) -> str:
    return f"{where} has no nanfold; install it, in the same version as here, with the scheduler and all workers."


@contextmanager
def _settings() -> Iterator[None]:
    """One BLAS thread in each of our tasks, and no warning of a few vectors a row that travel with the graph."""
    import dask

    # Where no client can be, as nothing of it is imported, its settings are left alone.
    quiet = {"distributed.admin.large-graph-warning-threshold": "1TB"} if "distributed" in sys.modules else {}
    with dask.config.set(quiet), threadpool_limits(1, "blas"):
        yield


def _scheduler_is_gone(error: Exception) -> bool:
    """Whether an error says that tasks were cancelled, or that what was persisted cannot be had."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return bool(kinds & {"CancelledError", "CommClosedError"}) or "Missing dependency" in str(error)


def check_chunks(X: Any, name: str = "X") -> None:
    """One sentence for a Dask collection that cannot be read by whole rows; `name` is its argument's."""
    if type(X).__name__ == "Delayed":  # which has whatever attribute it is asked for
        raise TypeError(
            f"{name} is a Dask Delayed, whose shape is not known; make it an array by "
            f"dask.array.from_delayed({name}, shape, dtype)."
        )
    if not hasattr(X, "chunks"):
        remedy = f"give {name}.to_dask_array(lengths=True)" if hasattr(X, "to_dask_array") else "make it a Dask array"
        raise TypeError(f"{name} is a Dask {type(X).__name__}, which is read by neither rows nor columns; {remedy}.")
    if any(np.isnan(size) for sizes in X.chunks for size in sizes):
        raise ValueError(
            f"{name} has chunks of unknown size; call {name}.compute_chunk_sizes() first, or lengths=True where it is "
            "made from a table."
        )
    if X.ndim == 2 and len(X.chunks[1]) > 1:
        raise ValueError(
            f"The columns of {name} are split into {len(X.chunks[1])} chunks, and whole rows are needed; call "
            f"{name}.rechunk({{0: 'auto', 1: -1}}), or read {name} in chunks of whole rows."
        )
