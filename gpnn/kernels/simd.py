"""SIMD vectors, prefetch and bfloat16 inside compiled kernels: all LLVM that is written by hand.

A loop over columns whose number the compiler does not know takes longer than the columns of a narrow row themselves. A
:class:`Vector` is as many neighbouring columns of a row as registers hold, one value inside a kernel. Kernels see
nothing of LLVM but these functions:

=============================  ==================================================
`zero_vector`                  zeros, as many as are read at a time
`read_vector`, `write_vector`  a vector from or to `array[row, column:]`
`prefetch_vector`, `prefetch`  bring it, or one cache line, to the cache
`add_scaled`, `scale_vector`   total + factor · vector, and factor · vector
`widen`, `narrow`              bfloat16, stored as int16, to float32 and back
=============================  ==================================================

`docs/decisions.md` has what this gains over numba alone.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic, models, overload, register_model

CACHE_LINE = 64  # bytes
_HALF, _WORD, _LONG = ir.IntType(16), ir.IntType(32), ir.IntType(64)


class Vector(types.Type):
    """The type of `count` numbers; `masked`: the row may end before, and what lies behind it is not touched."""

    def __init__(self, number, count: int, masked: bool) -> None:
        super().__init__(f"Vector({number}, {count}, {masked})")
        self.number, self.count, self.masked = number, count, masked


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, kind) -> None:
        super().__init__(manager, kind, ir.VectorType(manager.lookup(kind.number).get_value_type(), kind.count))


@intrinsic(prefer_literal=True)
def zero_vector(typingctx, like, count, masked):
    """`count` zeros of the type that the array `like` holds."""
    kind = Vector(like.dtype, count.literal_value, masked.literal_value)
    return kind(like, count, masked), lambda context, builder, *_: context.get_constant_null(kind)


@intrinsic
def read_vector(typingctx, like, array, row, column):
    """array[row, column:], as many and of the type as in `like`."""

    def generate(context, builder, signature, arguments):
        return _Place(context, builder, *signature.args[:2], *arguments[1:]).read()

    return like(like, _whole_rows(array), types.intp, types.intp), generate


@intrinsic
def prefetch_vector(typingctx, like, array, row, column):
    """Prefetch what :func:`read_vector` will read."""

    def generate(context, builder, signature, arguments):
        _Place(context, builder, *signature.args[:2], *arguments[1:]).prefetch()
        return context.get_dummy_value()

    return types.void(like, _whole_rows(array), types.intp, types.intp), generate


@intrinsic
def write_vector(typingctx, vector, array, row, column):
    """array[row, column:] = vector."""

    def generate(context, builder, signature, arguments):
        _Place(context, builder, *signature.args[:2], *arguments[1:]).write(arguments[0])
        return context.get_dummy_value()

    return types.void(vector, _whole_rows(array), types.intp, types.intp), generate


@intrinsic
def add_scaled(typingctx, total, factor, vector):
    """total + factor · vector, rounded twice."""

    def generate(context, builder, signature, arguments):
        start, value, added = arguments
        return builder.fadd(start, builder.fmul(_broadcast(builder, value, total.count), added))

    return total(total, total.number, vector), generate


@intrinsic
def scale_vector(typingctx, vector, factor):
    """factor · vector."""

    def generate(context, builder, signature, arguments):
        return builder.fmul(_broadcast(builder, arguments[1], vector.count), arguments[0])

    return vector(vector, vector.number), generate


@intrinsic
def prefetch(typingctx, array, row, column):
    """Prefetch the cache line of `array[row, column]`."""

    def generate(context, builder, signature, arguments):
        kind = signature.args[0]
        value = context.make_array(kind)(context, builder, arguments[0])
        at = cgutils.get_item_pointer(context, builder, kind, value, list(arguments[1:]), wraparound=False)
        _prefetch_line(builder, builder.bitcast(at, ir.IntType(8).as_pointer()))
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp), generate


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
def _widen_number(value):
    return (lambda value: _widen_word(value)) if value == types.int16 else (lambda value: value)


@overload(narrow, inline="always")
def _narrow_like(value, like):
    if like == types.int16:
        return lambda value, like: _narrow_number(value)
    return lambda value, like: value


class _Place:
    """Where a vector lies in an array: bfloat16 as int16, other types as they are."""

    def __init__(self, context, builder, kind, source, array, row, column) -> None:
        array = context.make_array(source)(context, builder, array)
        at = cgutils.get_item_pointer(context, builder, source, array, [row, column], wraparound=False)
        self.builder, self.align = builder, source.dtype.bitwidth // 8
        self.type = ir.VectorType(context.get_data_type(source.dtype), kind.count)
        self.at = builder.bitcast(at, self.type.as_pointer())
        self.mask = None
        if kind.masked:
            left = builder.sub(builder.extract_value(array.shape, 1), column)
            numbers = ir.Constant(ir.VectorType(_LONG, kind.count), list(range(kind.count)))
            self.mask = builder.icmp_signed("<", numbers, _broadcast(builder, left, kind.count))

    def read(self):
        if self.mask is None:
            stored = self.builder.load(self.at, align=self.align)
        else:
            rest = ir.Constant(self.type, None)
            stored = self._masked("load", self.type, self.at, _WORD(self.align), self.mask, rest)
        return _widen_vector(self.builder, stored) if self.type.element == _HALF else stored

    def prefetch(self) -> None:
        start, num_bytes = self.builder.bitcast(self.at, ir.IntType(8).as_pointer()), self.type.count * self.align
        for offset in range(0, num_bytes, CACHE_LINE):
            _prefetch_line(self.builder, self.builder.gep(start, [_LONG(offset)]))

    def write(self, vector) -> None:
        stored = _narrow_vector(self.builder, vector) if self.type.element == _HALF else vector
        if self.mask is None:
            self.builder.store(stored, self.at, align=self.align)
        else:
            self._masked("store", ir.VoidType(), stored, self.at, _WORD(self.align), self.mask)

    def _masked(self, what: str, result, *arguments):
        name = f"llvm.masked.{what}.v{self.type.count}{self.type.element.intrinsic_name}.p0"
        shape = ir.FunctionType(result, [each.type for each in arguments])
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, shape, name), arguments)


def _prefetch_line(builder, at) -> None:
    """Prefetch the cache line at a pointer to bytes: to read, and not into the first cache."""
    number = ir.IntType(32)
    shape = ir.FunctionType(ir.VoidType(), [at.type, number, number, number])
    function = builder.module.declare_intrinsic("llvm.prefetch", [at.type], shape)
    builder.call(function, [at, number(0), number(2), number(1)])


def _whole_rows(array):
    """The array's type, in which the columns of a row lie side by side."""
    if array.layout != "C":
        raise TypingError(f"Vectors need an array whose rows are contiguous. Got {array}.")
    return array


def _broadcast(builder, value, count: int):
    """The value in every element of a vector."""
    first = builder.insert_element(ir.Constant(ir.VectorType(value.type, count), ir.Undefined), value, _WORD(0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(_WORD, count), None))


def _widen_vector(builder, stored):
    """The numbers whose upper halves are stored."""
    words = builder.zext(stored, ir.VectorType(_WORD, stored.type.count))
    words = builder.shl(words, _broadcast(builder, _WORD(16), stored.type.count))
    return builder.bitcast(words, ir.VectorType(ir.FloatType(), stored.type.count))


def _narrow_vector(builder, vector):
    """Round to the nearest, ties to even; not-a-number stays one."""
    count = vector.type.count
    sixteen, one, half, nan = (_broadcast(builder, _WORD(value), count) for value in (16, 1, 0x7FFF, 0x7FC0))
    words = builder.bitcast(vector, ir.VectorType(_WORD, count))
    odd = builder.and_(builder.lshr(words, sixteen), one)
    rounded = builder.lshr(builder.add(words, builder.add(odd, half)), sixteen)
    kept = builder.select(builder.fcmp_ordered("ord", vector, vector), rounded, nan)
    return builder.trunc(kept, ir.VectorType(_HALF, count))
