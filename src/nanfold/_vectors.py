"""Vectors of a fixed length as values inside kernels, so that a row of a panel is held in the processor's registers.

LLVM leaves an inner loop of a known small length as single operations, which is three times slower. Here the length is
that of the tuple `lanes`, known when a kernel is compiled, and the operations are LLVM's own on whole vectors, which it
spreads over whatever registers the processor has. Panels are float64 arrays as wide as a vector; those made by `panel`
start where a line of the cache does, as a vector that lies in one line more than it needs takes half as long again.

All arrays are contiguous, and indices are taken as they are: numba's own brackets ask of each whether it is negative
and counts from the end, which takes longer than the arithmetic.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model

operation: Any = intrinsic

# How long a vector may be; wider blocks of vectors are cut into pieces of these.
WIDTHS = (8, 16, 32)
# Bytes of a line of the cache.
LINE = 64


def panel(rows: int, width: int) -> np.ndarray:
    """A panel of zeros."""
    memory = np.zeros(rows * width + LINE // 8)
    start = -memory.ctypes.data % LINE // 8
    return memory[start : start + rows * width].reshape(rows, width)


class Vector(types.Type):
    """So many float64 side by side."""

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(name=f"Vector({width})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Vector) -> None:
        super().__init__(manager, kind, _vector(kind.width))


def _vector(width: int) -> ir.VectorType:
    return ir.VectorType(ir.DoubleType(), width)


def _element(context: Any, builder: Any, kind: Any, array: Any, place: Any) -> Any:
    if kind.layout != "C":
        raise TypeError(f"Vectors and their numbers are taken from contiguous arrays; this is {kind}.")
    return builder.gep(context.make_array(kind)(context, builder, array).data, [place])


def _address(context: Any, builder: Any, kind: Any, panel: Any, row: Any, width: int) -> Any:
    # The width is a constant, by which a shift multiplies.
    place = builder.mul(row, ir.Constant(row.type, width))
    return builder.bitcast(_element(context, builder, kind, panel, place), _vector(width).as_pointer())


@operation
def at(typing: Any, array: Any, place: Any) -> Any:
    """array[place]."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_element(context, builder, array, *args))

    return array.dtype(array, types.intp), build


@operation
def cell(typing: Any, array: Any, row: Any, column: Any) -> Any:
    """array[row, column]."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        contents = context.make_array(array)(context, builder, args[0])
        length = cgutils.unpack_tuple(builder, contents.shape)[1]
        place = builder.add(builder.mul(args[1], length), args[2])
        return builder.load(_element(context, builder, array, args[0], place))

    return array.dtype(array, types.intp, types.intp), build


@operation
def prefetch(typing: Any, array: Any, place: Any) -> Any:
    """Have the line of the cache that array[place] is in brought near, without waiting for it."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number, byte = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        # To be read, to the nearest cache, of data.
        how = [ir.Constant(number, 0), ir.Constant(number, 3), ir.Constant(number, 1)]
        builder.call(function, [builder.bitcast(_element(context, builder, array, *args), byte), *how])
        return context.get_dummy_value()

    return types.void(array, types.intp), build


@operation
def nothing(typing: Any, lanes: Any) -> Any:
    """A vector of zeros."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(_vector(lanes.count), None)

    return Vector(lanes.count)(lanes), build


@operation
def load(typing: Any, panel: Any, row: Any, lanes: Any) -> Any:
    """A row of a panel."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_address(context, builder, panel, args[0], args[1], lanes.count), align=8)

    return Vector(lanes.count)(panel, types.intp, lanes), build


@operation
def store(typing: Any, vector: Any, panel: Any, row: Any) -> Any:
    """Overwrite a row of a panel."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[0], _address(context, builder, panel, args[1], args[2], vector.width), align=8)
        return context.get_dummy_value()

    return types.void(vector, panel, types.intp), build


@operation
def plus(typing: Any, vector: Any, number: Any, other: Any) -> Any:
    """Vector + number * other, in one rounding where the processor can."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = _vector(vector.width)
        first = builder.insert_element(ir.Constant(kind, ir.Undefined), args[1], ir.Constant(ir.IntType(32), 0))
        places = ir.Constant(ir.VectorType(ir.IntType(32), vector.width), [0] * vector.width)
        numbers = builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), places)
        return builder.fadd(args[0], builder.fmul(numbers, args[2], flags=("contract",)), flags=("contract",))

    return vector(vector, types.float64, vector), build
