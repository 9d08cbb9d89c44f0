"""What all tables share."""

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import JSON, DateTime, Double, String
from sqlalchemy.dialects import mysql
from sqlalchemy.orm import DeclarativeBase

# MariaDB's default precision is whole seconds.
UtcDateTime = DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
Uuid = String(36)


class Base(DeclarativeBase):
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        datetime: UtcDateTime,
        float: Double(),
        str: String(255),
        dict[str, Any]: JSON,
        list[Any]: JSON,
    }
