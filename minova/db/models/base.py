"""The base of all tables."""

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import JSON, DateTime, Double, String
from sqlalchemy.dialects import mysql
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

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


class Lockable:
    """Of tables whose rows are locked (`with_for_update`). `lock_number`: counts the locks, for databases on which a row
    that is only locked does not conflict with other transactions (`minova.db.connections.galera`); elsewhere it stays NULL.
    """

    lock_number: Mapped[int | None] = mapped_column(deferred=True, sort_order=1000)
