"""Decoders of every type that minova reads. Each is built when its module is imported, one at a time.

msgspec builds its tables for a Struct type at the type's first use. A second thread that decodes the same type at that
moment reads a half-built table, and the process ends with a segmentation fault (seen with msgspec 0.22). Therefore
every type is read through a Decoder, which builds everything at its definition, under one lock for the process. ruff
bans msgspec's own `convert` and `json.decode` outside this module; see
docs/decisions/0016-decoders-are-made-at-start.md.
"""

import threading
from types import UnionType
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")

_LOCK = threading.Lock()
_PREPARED: list[Any] = []


class Decoder(Generic[T]):
    """Reads values of `kind`, a Struct or any other type that msgspec knows. Define it at module level, so that it is
    built at import.

    `strict=False` also accepts strings in place of numbers and booleans.
    """

    def __init__(self, kind: type[T] | UnionType, *, strict: bool = True) -> None:
        self.kind: Any = kind
        self._strict = strict
        with _LOCK:
            # Builds the tables of the type and of all types inside it; `convert` uses the same ones.
            self._json: msgspec.json.Decoder[T] = msgspec.json.Decoder(self.kind, strict=strict)
            _PREPARED.append(kind)

    def from_json(self, text: str | bytes) -> T:
        """Raises msgspec.ValidationError with the place of the error, or msgspec.DecodeError if it is not JSON."""
        return self._json.decode(text)

    def from_builtins(self, value: Any) -> T:
        """Raises msgspec.ValidationError with the place of the error."""
        converted: T = msgspec.convert(value, self.kind, strict=self._strict)
        return converted


def prepared() -> tuple[Any, ...]:
    """Returns every type for which this process has made a Decoder."""
    with _LOCK:
        return tuple(_PREPARED)


_ANY: Decoder[Any] = Decoder(Any)


def parse_json(text: str | bytes) -> Any:
    """Returns plain values. Raises msgspec.DecodeError if `text` is not JSON."""
    return _ANY.from_json(text)


def write_json(value: Any) -> str:
    """Returns the JSON text of a struct or of plain values."""
    return msgspec.json.encode(value).decode()
