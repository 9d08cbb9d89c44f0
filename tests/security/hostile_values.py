"""Random messages of a stolen host, made from the types of a contract: some of them valid, most of them not."""

import random
from typing import Any

import msgspec

from minova.contracts.base import Method
from minova.objects.hosts.bounds import PAGE_SIZES
from tests.functional.scheduler.cloud import named

inspect = msgspec.inspect
NESTED: Any = []
for _ in range(200):
    NESTED = [NESTED]
WILD: tuple[Any, ...] = (
    *(0, -1, -5, 2**31, 2**62, 2**63, 2**64, 2**100, -(2**62), -(2**70), 10**400),
    *(0.5, -1e300, 1e300, float("nan"), float("inf"), float("-inf")),
    *("", "x", "x" * 300, "x" * 100_000, "\0", "\ud800", "../..", "9" * 400, "[" * 5000, "::ffff:1", '{"a": 1}'),
    *(None, True, [], {}, [[]], {"": None}, {"value": 1e300, "name": "cpu.percent"}, NESTED),
)
PLAIN_TEXT = (
    "",
    "x",
    "1",
    "active",
    "spawning",
    "0000:00:01.0",
    "192.0.2.1",
    '{"arch": "x86_64"}',
    "io_workload",
    "HW_CPU_X86_AVX",
)


class Attacker:
    """`known`: values by the name of an argument or field, from which it often takes one."""

    def __init__(self, seed: int, known: dict[str, tuple[Any, ...]]) -> None:
        self._random = random.Random(seed)
        self._known = known

    def message(self, method: Method) -> dict[str, Any]:
        """Plain values, as they come from the bus."""
        arguments = self._struct(inspect.type_info(method.arguments.kind))
        # None, one or a few values that the types may not allow.
        for _ in range(self._random.choice((0, 0, 0, 1, 3))):
            self._spoil(arguments)
        return arguments

    def _spoil(self, value: Any) -> None:
        """Puts something wild in place of any value inside."""
        while True:
            keys = list(value) if isinstance(value, dict) else list(range(len(value)))
            if not keys:
                return
            key = self._random.choice(keys)
            inner = value[key]
            if not isinstance(inner, dict | list) or not inner or self._random.random() < 0.2:
                if key != "host" or self._random.random() < 0.1:
                    value[key] = self._random.choice(WILD)
                return
            value = inner

    def _struct(self, kind: Any) -> dict[str, Any]:
        fields = (field for field in kind.fields if field.required or self._random.random() < 0.5)
        return {field.encode_name: self._field(field) for field in fields}

    def _field(self, field: Any) -> Any:
        known_values = self._known.get(field.name)
        if known_values and _is_plain(field.type) and self._random.random() < 0.9:
            return self._random.choice(known_values)
        return self._value(field.type)

    def _value(self, kind: Any) -> Any:
        if isinstance(kind, inspect.Metadata):
            return self._value(kind.type)
        if isinstance(kind, inspect.UnionType):
            return self._value(self._random.choice(kind.types))
        if isinstance(kind, inspect.StructType):
            return self._struct(kind)
        if isinstance(kind, inspect.DictType):
            return {self._value(kind.key_type): self._value(kind.value_type) for _ in range(self._random.randrange(3))}
        if isinstance(kind, inspect.VarTupleType | inspect.FrozenSetType):
            return [self._value(kind.item_type) for _ in range(self._random.randrange(4))]
        if isinstance(kind, inspect.TupleType):
            return [self._value(item_type) for item_type in kind.item_types]
        return self._leaf(kind)

    def _number(self, kind: Any) -> int:
        low, high = kind.ge if kind.ge is not None else -(2**63), kind.le if kind.le is not None else 2**63
        if (low, high) == (PAGE_SIZES[0], PAGE_SIZES[-1]):
            return self._random.choice(PAGE_SIZES)
        return self._random.choice((int(low), int(high), max(low, min(high, self._random.randrange(-2, 70)))))

    def _leaf(self, kind: Any) -> Any:
        if isinstance(kind, inspect.IntType):
            return self._number(kind)
        if isinstance(kind, inspect.FloatType):
            return self._random.choice((kind.ge or 0.0, kind.le or 1e300, 1.0, 0.25))
        if isinstance(kind, inspect.BoolType):
            return self._random.random() < 0.5
        if isinstance(kind, inspect.EnumType):
            return self._random.choice(list(kind.cls)).value
        if isinstance(kind, inspect.LiteralType):
            return self._random.choice(kind.values)
        if isinstance(kind, inspect.StrType):
            if kind.pattern is not None and "VCPU" in kind.pattern:
                return self._random.choice(("VCPU", "PCPU", "VGPU", "MEM_ENCRYPTION_CONTEXT", "MEMORY_MB", "DISK_GB"))
            if kind.pattern is not None:
                return self._random.choice(("req-1", "HW_CPU_X86_AVX", "COMPUTE_NODE", named("message")))
            return self._random.choice(PLAIN_TEXT)
        if isinstance(kind, inspect.AnyType):
            return self._random.choice(WILD if self._random.random() < 0.1 else PLAIN_TEXT)
        return None


def _is_plain(kind: Any) -> bool:
    """Whether it is a number or text, or one of several types of which one is."""
    if isinstance(kind, inspect.Metadata):
        return _is_plain(kind.type)
    if isinstance(kind, inspect.UnionType):
        return any(map(_is_plain, kind.types))
    return isinstance(kind, inspect.StrType | inspect.IntType)
