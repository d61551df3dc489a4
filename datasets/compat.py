"""What this room uses of numba beyond its documented interface: an LLVM instruction and the text of an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

NO_PLACE_FOR_CACHE = "cannot cache function"
"""In the message of the `RuntimeError` with which numba refuses ``cache=True`` where it can write nowhere."""


def _prefetch(context, array, index):
    """In a kernel: start to read ``array[index]`` into the processor's cache, without waiting for it.

    It is only a hint to the processor: an index outside the array does no harm.
    """

    def generate(context, builder, signature, arguments):
        array_type, index_type = signature.args
        data = context.make_array(array_type)(context, builder, arguments[0]).data
        place = context.cast(builder, arguments[1], index_type, numba.types.intp)
        byte, i32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [byte, i32, i32, i32])
        hint = cgutils.get_or_insert_function(builder.module, shape, "llvm.prefetch")
        # For reading (0), to be kept in every cache (3), data rather than code (1).
        builder.call(hint, [builder.bitcast(builder.gep(data, [place]), byte), i32(0), i32(3), i32(1)])
        return context.get_dummy_value()

    return numba.types.void(array, index), generate


prefetch: Callable[..., Any] = intrinsic(_prefetch)
