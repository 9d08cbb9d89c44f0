"""Random values of the types of messages, within the bounds that the types have."""

from typing import Any

import msgspec
from hypothesis import strategies as st

from minova.objects.hosts.bounds import PAGE_SIZES

# What JSON can carry; keys of objects are text.
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
# What all readers of JSON hold exactly.
MAX_INT = 2**53
INTS = st.integers(-MAX_INT, MAX_INT)
VALUES = st.none() | st.booleans() | INTS | TEXT
ANYTHING = st.recursive(
    VALUES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2), max_leaves=4
)

_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    msgspec.inspect.StrType: TEXT,
    msgspec.inspect.BoolType: st.booleans(),
    msgspec.inspect.NoneType: st.none(),
    msgspec.inspect.DateTimeType: st.datetimes(),
    msgspec.inspect.AnyType: ANYTHING,
}


def of(annotation: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type."""
    return of_info(msgspec.inspect.type_info(annotation))


def of_info(kind: Any) -> st.SearchStrategy[Any]:
    inspect = msgspec.inspect
    if isinstance(kind, inspect.Metadata):
        return of_info(kind.type)
    if isinstance(kind, inspect.UnionType):
        return st.one_of([of_info(type_info) for type_info in kind.types])
    if isinstance(kind, inspect.StructType):
        return st.builds(kind.cls, **{field.name: of_info(field.type) for field in kind.fields})
    collection = _collection(kind)
    return collection if collection is not None else _simple(kind)


def _collection(kind: Any) -> st.SearchStrategy[Any] | None:
    inspect = msgspec.inspect
    if isinstance(kind, inspect.VarTupleType):
        return st.lists(of_info(kind.item_type), max_size=2).map(tuple)
    if isinstance(kind, inspect.FrozenSetType):
        return st.frozensets(of_info(kind.item_type), max_size=3)
    if isinstance(kind, inspect.TupleType):
        return st.tuples(*(of_info(item_type) for item_type in kind.item_types))
    if isinstance(kind, inspect.DictType):
        return st.dictionaries(of_info(kind.key_type), of_info(kind.value_type), max_size=2)
    return None


def _simple(kind: Any) -> st.SearchStrategy[Any]:
    inspect = msgspec.inspect
    if isinstance(kind, inspect.IntType) and (kind.ge, kind.le) == (PAGE_SIZES[0], PAGE_SIZES[-1]):
        return st.sampled_from(PAGE_SIZES)
    if isinstance(kind, inspect.IntType):
        return st.integers(_bound(kind.ge, -MAX_INT), _bound(kind.le, MAX_INT))
    if isinstance(kind, inspect.FloatType):
        return st.floats(kind.ge, kind.le, allow_nan=False, allow_infinity=False)
    if isinstance(kind, inspect.StrType) and kind.pattern is not None:
        matching = st.from_regex(kind.pattern, alphabet=st.characters(codec="utf-8"))
        return matching.filter(lambda text: len(text) <= (kind.max_length or 255))
    if isinstance(kind, inspect.LiteralType):
        return st.sampled_from(kind.values)
    if isinstance(kind, inspect.EnumType):
        return st.sampled_from(kind.cls)
    return _PLAIN[type(kind)]


def _bound(bound: float | None, most: int) -> int:
    """The nearest number to a bound that all readers of JSON hold exactly."""
    return most if bound is None else max(-MAX_INT, min(int(bound), MAX_INT))
