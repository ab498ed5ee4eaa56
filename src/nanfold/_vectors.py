"""Vectors of a fixed length as values inside kernels, so that a row of a panel is held in the processor's registers.

LLVM leaves an inner loop of a known small length as single operations, which is three times slower. Here the length is
that of the tuple `lanes`, known when a kernel is compiled, and the operations are LLVM's own on whole vectors, which it
spreads over whatever registers the processor has. Panels are float64 arrays whose rows are contiguous.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model

operation: Any = intrinsic

# How long a vector may be; wider blocks of vectors are cut into pieces of these.
WIDTHS = (8, 16, 32)


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


def _address(context: Any, builder: Any, kind: Any, panel: Any, row: Any, width: int) -> Any:
    array = context.make_array(kind)(context, builder, panel)
    stride = cgutils.unpack_tuple(builder, array.strides)[0]
    start = builder.ptrtoint(array.data, stride.type)
    return builder.inttoptr(builder.add(start, builder.mul(row, stride)), _vector(width).as_pointer())


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
