"""Custom column types."""

from typing import Any

import msgspec
from sqlalchemy import JSON, Dialect, Text
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TypeDecorator

from minova.codecs import Decoder

# MariaDB's TEXT holds at most 64 KiB.
LongText = Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")


class StructType(TypeDecorator[Any]):
    """A frozen struct, stored as JSON text. Old rows are read with the defaults of newer fields."""

    impl = LongText
    cache_ok = True

    def __init__(self, struct: type[msgspec.Struct]) -> None:
        super().__init__()
        self.struct = struct
        self._decoder = Decoder(struct)

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else msgspec.json.encode(value).decode()

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else self._decoder.from_json(value)


class EncodedJson(TypeDecorator[Any]):
    """A JSON column that is written from structs and read as plain values. Structs are encoded once, with sets as
    sorted lists.
    """

    impl = JSON
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return msgspec.Raw(msgspec.json.encode(value, order="deterministic"))
