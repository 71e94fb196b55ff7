"""Words inside compiled kernels: bfloat16 read and written as 16-bit integers, and rows asked for before their use."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload

CACHE_LINE = 64  # bytes


@intrinsic
def prefetch(typingctx, array, row, column):
    """Ask for the cache line of `array[row, column]`, and go on without it."""

    def generate(context, builder, signature, arguments):
        kind = signature.args[0]
        value = context.make_array(kind)(context, builder, arguments[0])
        at = cgutils.get_item_pointer(context, builder, kind, value, list(arguments[1:]), wraparound=False)
        ask(builder, builder.bitcast(at, ir.IntType(8).as_pointer()))
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp), generate


def ask(builder, at) -> None:
    """Ask for the cache line at a pointer to bytes: to read, and not into the first cache."""
    number = ir.IntType(32)
    shape = ir.FunctionType(ir.VoidType(), [at.type, number, number, number])
    function = builder.module.declare_intrinsic("llvm.prefetch", [at.type], shape)
    builder.call(function, [at, number(0), number(2), number(1)])


@intrinsic
def _as_float(typingctx, word):
    return types.float32(types.uint32), lambda context, builder, _, arguments: builder.bitcast(
        arguments[0], ir.FloatType()
    )


@intrinsic
def _as_word(typingctx, number):
    return types.uint32(types.float32), lambda context, builder, _, arguments: builder.bitcast(
        arguments[0], ir.IntType(32)
    )


@njit(inline="always")
def _widen_word(word):
    return _as_float(types.uint32(types.uint16(word)) << types.uint32(16))


@njit(inline="always")
def _narrow_number(number):
    """Round to the nearest, ties to even; not-a-number stays one."""
    word = _as_word(types.float32(number))
    rounded = (word + types.uint32(0x7FFF) + ((word >> types.uint32(16)) & types.uint32(1))) >> types.uint32(16)
    return types.int16(types.uint16(rounded if number == number else types.uint32(0x7FC0)))


def widen(value):
    """The number that a stored value stands for: bfloat16 is stored as int16, other types as they are."""
    raise NotImplementedError("`widen` runs inside compiled kernels.")


def narrow(value, like):
    """The stored form of a number in an array whose entries are like `like`."""
    raise NotImplementedError("`narrow` runs inside compiled kernels.")


@overload(widen, inline="always")
def _widen(value):
    return (lambda value: _widen_word(value)) if value == types.int16 else (lambda value: value)


@overload(narrow, inline="always")
def _narrow(value, like):
    if like == types.int16:
        return lambda value, like: _narrow_number(value)
    return lambda value, like: value
