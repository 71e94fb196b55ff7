"""Lanes: neighbouring columns of a row as one value inside compiled kernels, so that sums stay in registers.

A loop over columns whose number the compiler does not know costs more than the columns of a narrow row themselves.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic, models, register_model

from gpnn.kernels.words import CACHE_LINE, ask

_HALF, _WORD, _LONG = ir.IntType(16), ir.IntType(32), ir.IntType(64)


class Lanes(types.Type):
    """The type of `count` numbers; `some`: the row may end before, and what lies behind it is not touched."""

    def __init__(self, number, count: int, some: bool) -> None:
        super().__init__(f"Lanes({number}, {count}, {some})")
        self.number, self.count, self.some = number, count, some


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, kind) -> None:
        super().__init__(manager, kind, ir.VectorType(manager.lookup(kind.number).get_value_type(), kind.count))


@intrinsic(prefer_literal=True)
def zero_lanes(typingctx, like, count, some):
    """`count` zeros of the type that the array `like` holds."""
    kind = Lanes(like.dtype, count.literal_value, some.literal_value)
    return kind(like, count, some), lambda context, builder, *_: context.get_constant_null(kind)


@intrinsic
def read_lanes(typingctx, like, array, row, column):
    """array[row, column:], as many and of the type as in `like`."""

    def generate(context, builder, signature, arguments):
        return _Place(context, builder, *signature.args[:2], *arguments[1:]).read()

    return like(like, _whole_rows(array), types.intp, types.intp), generate


@intrinsic
def ask_lanes(typingctx, like, array, row, column):
    """Ask for what :func:`read_lanes` will read, and go on without it."""

    def generate(context, builder, signature, arguments):
        _Place(context, builder, *signature.args[:2], *arguments[1:]).ask()
        return context.get_dummy_value()

    return types.void(like, _whole_rows(array), types.intp, types.intp), generate


@intrinsic
def write_lanes(typingctx, lanes, array, row, column):
    """array[row, column:] = lanes."""

    def generate(context, builder, signature, arguments):
        _Place(context, builder, *signature.args[:2], *arguments[1:]).write(arguments[0])
        return context.get_dummy_value()

    return types.void(lanes, _whole_rows(array), types.intp, types.intp), generate


@intrinsic
def add_lanes(typingctx, lanes, factor, others):
    """lanes + factor · others, rounded twice."""

    def generate(context, builder, signature, arguments):
        total, factor, value = arguments
        return builder.fadd(total, builder.fmul(_spread(builder, factor, lanes.count), value))

    return lanes(lanes, lanes.number, others), generate


@intrinsic
def scale_lanes(typingctx, lanes, factor):
    """factor · lanes."""

    def generate(context, builder, signature, arguments):
        return builder.fmul(_spread(builder, arguments[1], lanes.count), arguments[0])

    return lanes(lanes, lanes.number), generate


class _Place:
    """Where lanes lie in an array: bfloat16 as int16, other types as they are."""

    def __init__(self, context, builder, kind, source, array, row, column) -> None:
        array = context.make_array(source)(context, builder, array)
        at = cgutils.get_item_pointer(context, builder, source, array, [row, column], wraparound=False)
        self.builder, self.align = builder, source.dtype.bitwidth // 8
        self.type = ir.VectorType(context.get_data_type(source.dtype), kind.count)
        self.at = builder.bitcast(at, self.type.as_pointer())
        self.mask = None
        if kind.some:
            left = builder.sub(builder.extract_value(array.shape, 1), column)
            numbers = ir.Constant(ir.VectorType(_LONG, kind.count), list(range(kind.count)))
            self.mask = builder.icmp_signed("<", numbers, _spread(builder, left, kind.count))

    def read(self):
        if self.mask is None:
            stored = self.builder.load(self.at, align=self.align)
        else:
            rest = ir.Constant(self.type, None)
            stored = self._masked("load", self.type, self.at, _WORD(self.align), self.mask, rest)
        return _widen(self.builder, stored) if self.type.element == _HALF else stored

    def ask(self) -> None:
        start, num_bytes = self.builder.bitcast(self.at, ir.IntType(8).as_pointer()), self.type.count * self.align
        for offset in range(0, num_bytes, CACHE_LINE):
            ask(self.builder, self.builder.gep(start, [_LONG(offset)]))

    def write(self, lanes) -> None:
        stored = _narrow(self.builder, lanes) if self.type.element == _HALF else lanes
        if self.mask is None:
            self.builder.store(stored, self.at, align=self.align)
        else:
            self._masked("store", ir.VoidType(), stored, self.at, _WORD(self.align), self.mask)

    def _masked(self, what: str, result, *arguments):
        name = f"llvm.masked.{what}.v{self.type.count}{self.type.element.intrinsic_name}.p0"
        shape = ir.FunctionType(result, [each.type for each in arguments])
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, shape, name), arguments)


def _whole_rows(array):
    """The array's type, in which the columns of a row lie side by side."""
    if array.layout != "C":
        raise TypingError(f"Lanes need an array whose rows are contiguous. Got {array}.")
    return array


def _spread(builder, value, count: int):
    """The value in every lane."""
    first = builder.insert_element(ir.Constant(ir.VectorType(value.type, count), ir.Undefined), value, _WORD(0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(_WORD, count), None))


def _widen(builder, stored):
    """The numbers whose upper halves are stored."""
    words = builder.zext(stored, ir.VectorType(_WORD, stored.type.count))
    words = builder.shl(words, _spread(builder, _WORD(16), stored.type.count))
    return builder.bitcast(words, ir.VectorType(ir.FloatType(), stored.type.count))


def _narrow(builder, lanes):
    """Round to the nearest, ties to even; not-a-number stays one."""
    count = lanes.type.count
    sixteen, one, half, nan = (_spread(builder, _WORD(value), count) for value in (16, 1, 0x7FFF, 0x7FC0))
    words = builder.bitcast(lanes, ir.VectorType(_WORD, count))
    odd = builder.and_(builder.lshr(words, sixteen), one)
    rounded = builder.lshr(builder.add(words, builder.add(odd, half)), sixteen)
    kept = builder.select(builder.fcmp_ordered("ord", lanes, lanes), rounded, nan)
    return builder.trunc(kept, ir.VectorType(_HALF, count))
