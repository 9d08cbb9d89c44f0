"""SQL statements are compiled once in each process of tests, not once for each database: that took a third of the CPU time of a
test over a database, and there are thousands of them.
"""

from typing import Any
from unittest.mock import patch

from sqlalchemy import Engine, create_engine, make_url
from sqlalchemy.util import LRUCache

from minova.db import engine as engines

# More than there are: SQLAlchemy forgets, beyond one and a half of it, what was used least.
STATEMENTS = 5000
_compiled: LRUCache[Any, Any] = LRUCache(STATEMENTS)


def share() -> None:
    """From now on the databases of one server, or of SQLite's files, have what they compile in common."""
    patch.object(engines, "create_engine", _sharing_engine).start()


def _sharing_engine(url: str, **options: Any) -> Engine:
    parsed = make_url(url)
    server = (parsed.drivername, parsed.host, parsed.port)
    return create_engine(url, **options, execution_options={"compiled_cache": _CompiledFor(server)})


class _CompiledFor(dict[Any, Any]):
    """What SQLAlchemy takes for the cache of an engine. Its keys begin with the dialect, an object of that engine: here with the server."""

    def __init__(self, server: tuple[Any, ...]) -> None:
        self._server = server

    def get(self, key: Any, default: Any = None) -> Any:
        return _compiled.get((self._server, *key[1:]), default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        _compiled[self._server, *key[1:]] = compiled
