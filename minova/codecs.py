"""Decoders of every type that minova reads: made when the type's reader is defined, one at a time.

msgspec builds what it knows of a Struct type at the type's first use, and a second thread that decodes the type meanwhile
reads a half-built table: the process ends with a segmentation fault (seen with msgspec 0.22). Therefore a type is read through a
Decoder only, and a Decoder builds everything at its definition, under one lock for the process. ruff bans msgspec's own
`convert` and `json.decode` outside this module; see docs/decisions/0016-decoders-are-made-at-start.md.
"""

import threading
from types import UnionType
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")

_LOCK = threading.Lock()
_PREPARED: list[Any] = []


class Decoder(Generic[T]):
    """Reads values of `kind`, a Struct or any other type that msgspec knows. Define it at the import of a module.

    `strict=False`: strings stand for numbers and booleans too.
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
    """Every type that a Decoder was made for in this process."""
    with _LOCK:
        return tuple(_PREPARED)


_ANY: Decoder[Any] = Decoder(Any)


def parse_json(text: str | bytes) -> Any:
    """Plain values. Raises msgspec.DecodeError if `text` is not JSON."""
    return _ANY.from_json(text)


def write_json(value: Any) -> str:
    """The JSON text of a struct or of plain values."""
    return msgspec.json.encode(value).decode()
