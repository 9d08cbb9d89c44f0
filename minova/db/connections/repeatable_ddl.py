"""Changes of tables that can be repeated, for databases that commit each change at once: MariaDB and MySQL.

An upgrade that ends in the middle, by a kill or a lost connection, leaves some of the changes of a revision behind, and
the number of the revision before. The next upgrade runs that revision again. Therefore each change looks first whether
it is there already. PostgreSQL and SQLite undo an unfinished upgrade as a whole, and need none of this.

Importing this module makes Alembic use it: Alembic takes the newest class for the name of a dialect.
"""

from typing import Any

from alembic.ddl.mysql import MariaDBImpl, MySQLImpl
from sqlalchemy import (
    CheckConstraint,
    Column,
    Constraint,
    ForeignKeyConstraint,
    Index,
    Inspector,
    PrimaryKeyConstraint,
    Table,
    inspect,
)


class _Repeatable(MySQLImpl):
    """Not for statements that change rows (`op.execute`): a revision writes them so that they may run twice."""

    def create_table(self, table: Table, **kw: Any) -> None:
        if not self._new_inspector().has_table(table.name):
            super().create_table(table, **kw)
            return
        for index in sorted(table.indexes, key=lambda each: str(each.name)):
            self.create_index(index)

    def drop_table(self, table: Table, **kw: Any) -> None:
        if self._new_inspector().has_table(table.name):
            super().drop_table(table, **kw)

    def rename_table(self, old_table_name: str, new_table_name: Any, schema: Any = None) -> None:
        if self._new_inspector().has_table(old_table_name):
            super().rename_table(old_table_name, new_table_name, schema)

    def add_column(self, table_name: str, column: Column[Any], **kw: Any) -> None:
        if column.name not in self._columns(table_name):
            super().add_column(table_name, column, **kw)

    def drop_column(self, table_name: str, column: Column[Any], **kw: Any) -> None:
        if column.name in self._columns(table_name):
            super().drop_column(table_name, column, **kw)

    def alter_column(self, table_name: str, column_name: str, *, name: str | None = None, **kw: Any) -> None:
        """Only renaming cannot be repeated: it is skipped, with the rest of its statement, if the column has the new name."""
        if name is None or column_name in self._columns(table_name):
            super().alter_column(table_name, column_name, name=name, **kw)

    def create_index(self, index: Index, **kw: Any) -> None:
        if index.name not in self._indexes(_table_of(index)):
            super().create_index(index, **kw)

    def drop_index(self, index: Index, **kw: Any) -> None:
        if index.name in self._indexes(_table_of(index)):
            super().drop_index(index, **kw)

    def add_constraint(self, const: Any, **kw: Any) -> None:
        if not self._has(const):
            super().add_constraint(const, **kw)

    def drop_constraint(self, const: Constraint, **kw: Any) -> None:
        if self._has(const):
            super().drop_constraint(const, **kw)

    def bulk_insert(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError("A revision inserts rows with op.execute, in a statement that may run twice.")

    def _has(self, constraint: Any) -> bool:
        """Whether the table has it: a primary key, else a constraint of that name.

        Raises ValueError if it has no name, as it cannot be found again then.
        """
        inspector, table = self._new_inspector(), constraint.table.name
        if isinstance(constraint, PrimaryKeyConstraint):
            return bool(inspector.get_pk_constraint(table)["constrained_columns"])
        if constraint.name is None:
            raise ValueError(f"A constraint that a revision adds to the table {table} needs a name.")
        if isinstance(constraint, ForeignKeyConstraint):
            existing: Any = inspector.get_foreign_keys(table)
        elif isinstance(constraint, CheckConstraint):
            existing = inspector.get_check_constraints(table)
        else:
            # A unique constraint is an index here. One that is to be dropped has no kind.
            existing = [
                *inspector.get_indexes(table),
                *inspector.get_foreign_keys(table),
                *inspector.get_check_constraints(table),
            ]
        return constraint.name in {each["name"] for each in existing}

    def _columns(self, table: str) -> set[str]:
        return {each["name"] for each in self._new_inspector().get_columns(table)}

    def _indexes(self, table: str) -> set[str | None]:
        return {each["name"] for each in self._new_inspector().get_indexes(table)}

    def _new_inspector(self) -> Inspector:
        """An inspector remembers what it has read, so each change gets a new one."""
        assert self.connection is not None
        return inspect(self.connection)


def _table_of(index: Index) -> str:
    assert index.table is not None
    return index.table.name


class RepeatableMySQL(_Repeatable):
    __dialect__ = "mysql"


class RepeatableMariaDB(_Repeatable, MariaDBImpl):
    __dialect__ = "mariadb"
