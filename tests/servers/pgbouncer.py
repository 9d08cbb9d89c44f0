"""A private pgbouncer in front of a private PostgreSQL: each transaction gets any of a few sessions of the server."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.servers.postgresql import PostgreSQL, as_ordinary_user
from tests.servers.private_server import PrivateServer, program

SESSIONS = 10


class PgBouncer(PrivateServer):
    """`url_of(url)`: a URL of the PostgreSQL, through it."""

    name = "pgbouncer"
    ports_needed = 1

    def __init__(self, server: PostgreSQL) -> None:
        super().__init__()
        self._server = server

    def prepare(self) -> None:
        # Its messages go to its standard error, which is the log.
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": self.ports[0],
            "unix_socket_dir": "",
            "auth_type": "any",
            "pool_mode": "transaction",
            "default_pool_size": SESSIONS,
            "max_client_conn": 1000,
        }
        lines = [f"{name} = {value}" for name, value in settings.items()]
        everything = f"* = host=127.0.0.1 port={self._server.ports[0]} user=postgres"
        self._conf.write_text("\n".join(["[databases]", everything, "[pgbouncer]", *lines, ""]))
        if as_ordinary_user():
            for path in (self.directory, self._conf):
                shutil.chown(path, "postgres", "postgres")

    def command(self) -> list[str]:
        return [*as_ordinary_user(), program("pgbouncer", "pgbouncer"), str(self._conf)]

    def answers(self) -> bool:
        return "process up" in self.log

    def url_of(self, url: str) -> str:
        return url.replace(f":{self._server.ports[0]}/", f":{self.ports[0]}/")

    @property
    def _conf(self) -> Path:
        return self.directory / "pgbouncer.ini"
