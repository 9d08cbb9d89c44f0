"""Backups of a SQLite database, and their restore under the services that use it."""

import sqlite3
from contextlib import closing
from pathlib import Path


def take(file: Path, backup: Path) -> None:
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(backup)) as target:
        source.backup(target)


def restore(backup: Path, file: Path) -> None:
    """In place of what is there. Open connections of services go on, as with a database server behind one address."""
    take(backup, file)
