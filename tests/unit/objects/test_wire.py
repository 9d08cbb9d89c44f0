"""Every object that crosses a process boundary comes out of the wire as it went in."""

import importlib
import json
import pkgutil
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minova import context, objects
from minova.objects.actions.action import Arguments, ServerAction
from minova.objects.actions.rebuild import InjectedFile
from minova.objects.hosts import cloud

# What JSON can carry; keys of objects are text.
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
INTS = st.integers(-(2**53), 2**53)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.none() | st.booleans() | INTS | TEXT
ANYTHING = st.recursive(
    VALUES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2), max_leaves=4
)


CROSS_NOTHING = (ServerAction, Arguments, InjectedFile, cloud.Shown)


def structs() -> list[Any]:
    """All of minova.objects, and the context. The table of server actions and the bodies of requests for them cross nothing, and
    neither does what a process compares with the key of the cloud.
    """
    found: set[Any] = {context.RequestContext}
    for module in pkgutil.walk_packages(objects.__path__, f"{objects.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, msgspec.Struct) and not issubclass(value, CROSS_NOTHING):
                found.add(value)
    found.discard(msgspec.Struct)
    return sorted(found, key=lambda struct: struct.__name__)


def of(annotation: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type."""
    return of_info(msgspec.inspect.type_info(annotation))


def of_info(kind: Any) -> st.SearchStrategy[Any]:
    inspect = msgspec.inspect
    simple: dict[Any, st.SearchStrategy[Any]] = {
        inspect.StrType: TEXT,
        inspect.IntType: INTS,
        inspect.FloatType: FLOATS,
        inspect.BoolType: st.booleans(),
        inspect.NoneType: st.none(),
        inspect.DateTimeType: st.datetimes(),
        inspect.AnyType: ANYTHING,
    }
    if isinstance(kind, inspect.StrType) and kind.pattern is not None:
        matching = st.from_regex(kind.pattern, alphabet=st.characters(codec="utf-8"))
        return matching.filter(lambda text: len(text) <= (kind.max_length or 255))
    if type(kind) in simple:
        return simple[type(kind)]
    if isinstance(kind, inspect.UnionType):
        return st.one_of([of_info(one) for one in kind.types])
    if isinstance(kind, inspect.VarTupleType):
        return st.lists(of_info(kind.item_type), max_size=2).map(tuple)
    if isinstance(kind, inspect.FrozenSetType):
        return st.frozensets(of_info(kind.item_type), max_size=3)
    if isinstance(kind, inspect.TupleType):
        return st.tuples(*(of_info(one) for one in kind.item_types))
    if isinstance(kind, inspect.DictType):
        return st.dictionaries(of_info(kind.key_type), of_info(kind.value_type), max_size=2)
    if isinstance(kind, inspect.LiteralType):
        return st.sampled_from(kind.values)
    if isinstance(kind, inspect.EnumType):
        return st.sampled_from(kind.cls)
    assert isinstance(kind, inspect.StructType), kind
    return st.builds(kind.cls, **{field.name: of_info(field.type) for field in kind.fields})


@pytest.mark.parametrize("struct", structs(), ids=lambda struct: struct.__name__)
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_out_of_the_wire_as_it_went_in(struct: Any, data: st.DataObject) -> None:
    sent = data.draw(of(struct))
    wire = json.dumps(msgspec.to_builtins(sent))
    assert msgspec.convert(json.loads(wire), struct) == sent


@pytest.mark.parametrize("struct", structs(), ids=lambda struct: struct.__name__)
def test_objects_are_frozen_and_take_fields_of_newer_senders(struct: Any) -> None:
    config = struct.__struct_config__
    assert config.frozen
    assert not config.forbid_unknown_fields
