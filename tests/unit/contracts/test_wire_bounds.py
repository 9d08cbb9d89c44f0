"""Each value that a host sends has bounds: by the types of its message, or by what no message may hold."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from minova.context import RequestContext
from minova.contracts.base import Method, methods_of
from minova.contracts.conductor import ConductorApi
from minova.contracts.wire_bounds import MAX_DEPTH, MAX_INT, MAX_TEXT, MAX_VALUES, fault_of
from minova.objects.requests.build_extras import BuildExtras
from minova.objects.requests.request_spec import RequestSpec
from minova.objects.servers.instance import Instance
from minova.objects.servers.migration import Migration

inspect = msgspec.inspect
FROM_HOSTS = [method for method in methods_of(ConductorApi).values() if method.from_hosts]
# Of a request, and checked by themselves: `conductor/unexpected/checks.py` bounds a record of a guest; a move is read from its row.
OF_REQUESTS = {RequestContext, Instance, RequestSpec, BuildExtras, Migration}
# Any values, which the scheduler decodes (`scheduler/refresh/decode.py`) or checks bound.
BY_THE_MESSAGE = {"metrics"}


@pytest.mark.parametrize("method", FROM_HOSTS, ids=lambda one: one.name)
def test_each_number_text_and_list_of_a_host_has_bounds(method: Method) -> None:
    assert list(unbounded(inspect.type_info(method.arguments.kind), "")) == []


def unbounded(kind: Any, place: str) -> Iterator[str]:
    """Yields the places whose types allow any number, any text or any length."""
    if isinstance(kind, inspect.StructType):
        if kind.cls not in OF_REQUESTS:
            for field in kind.fields:
                if field.name not in BY_THE_MESSAGE:
                    yield from unbounded(field.type, f"{place}.{field.name}")
        return
    if isinstance(kind, inspect.IntType | inspect.FloatType) and (kind.ge is None or kind.le is None):
        yield f"{place}: any number"
    if isinstance(kind, inspect.StrType) and kind.max_length is None and kind.pattern is None:
        yield f"{place}: any text"
    if isinstance(kind, inspect.CollectionType | inspect.DictType) and kind.max_length is None:
        yield f"{place}: any length"
    if isinstance(kind, inspect.AnyType):
        yield f"{place}: anything"
    for inner in _inner(kind):
        yield from unbounded(inner, place)


def _inner(kind: Any) -> tuple[Any, ...]:
    if isinstance(kind, inspect.Metadata):
        return (kind.type,)
    if isinstance(kind, inspect.UnionType):
        return tuple(kind.types)
    if isinstance(kind, inspect.DictType):
        return (kind.key_type, kind.value_type)
    if isinstance(kind, inspect.TupleType):
        return tuple(kind.item_types)
    return (kind.item_type,) if isinstance(kind, inspect.CollectionType) else ()


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (1e300, "1e+300"),
        (MAX_INT + 1, "64 bits"),
        (-(2**70), "64 bits"),
        ("a\0b", "NUL"),
        ("\ud800", "Unicode"),
        ("x" * (MAX_TEXT + 1), "characters"),
        ({"\0": 1}, "NUL"),
        (nested(MAX_DEPTH + 1), "nested"),
        (nested(100_000), "nested"),
        ([0] * MAX_VALUES, "values"),
        (["x" * MAX_TEXT] * 33, "together"),
    ],
    ids=lambda one: one if isinstance(one, str) and len(one) < 12 else "-",
)
def test_bug_values_that_no_type_excludes_are_refused(value: Any, why: str) -> None:
    assert why in (fault_of({"argument": [value]}) or "")


def test_what_real_hosts_send_is_accepted() -> None:
    """A machine of 8192 CPUs with 512 devices, marks of 10,000 guests, an inode of 64 bits."""
    cells = [{"id": n, "cpuset": list(range(128)), "siblings": [[n, n + 1] for n in range(64)]} for n in range(64)]
    devices = [{"address": f"0000:{n:02x}:00.0", "vendor_id": "8086", "tags": [["a", "b"]]} for n in range(512)]
    marks = [{"uuid": str(n), "name": "grün", "node": "a", "memory_mb": 1, "attempt": 1} for n in range(10_000)]
    assert fault_of({"cells": cells, "devices": devices, "inode": MAX_INT, "free": -(2**40), "share": 0.5}) is None
    assert fault_of({"marks": marks}) is None
