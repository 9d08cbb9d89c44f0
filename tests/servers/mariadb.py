"""A private MariaDB on the loopback."""

from __future__ import annotations

import itertools
import os
import pwd
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.servers.authority import Authority
from tests.servers.private_server import PrivateServer, ServerError, program


def own_name() -> str:
    """Who runs this; mariadbd wants to be told when it is root."""
    return pwd.getpwuid(os.geteuid()).pw_name


class MariaDB(PrivateServer):
    """`url` is one database for all; `fresh_url()` makes an empty one."""

    name = "mariadb"
    # Else the driver reads all authorities of the system for each connection, in case that the server has TLS.
    tls = "&ssl_disabled=true"
    ports_needed = 1

    def __init__(self, directory: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, environment)
        self._numbers = itertools.count(1)

    @property
    def url(self) -> str:
        return self._url("minova")

    def fresh_url(self) -> str:
        """An SQLAlchemy URL of a new, empty database. A server that has crashed is started again, so that the tests that share it do not all
        fail: MariaDB 10.11 has died of a DESCRIBE once.
        """
        if self.pid is None:
            self.start()
        name = f"test_{next(self._numbers)}"
        self._execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        return self._url(name)

    def prepare(self) -> None:
        if self._data.exists():
            return
        install = program("mariadb-install-db", "mariadb-server-core")
        result = subprocess.run(
            [install, "--no-defaults", f"--user={own_name()}", f"--datadir={self._data}", "--skip-test-db"]
            + ["--auth-root-authentication-method=normal", "--skip-name-resolve"],
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
        )
        if result.returncode != 0:
            raise ServerError(f"mariadb-install-db failed\n{result.stdout}{result.stderr}")
        # The server runs this file when it starts, before it answers.
        (self.directory / "first.sql").write_text("CREATE DATABASE IF NOT EXISTS minova CHARACTER SET utf8mb4;\n")

    def command(self) -> list[str]:
        return [
            program("mariadbd", "mariadb-server-core"),
            "--no-defaults",
            f"--user={own_name()}",
            f"--datadir={self._data}",
            # Files of two servers beside each other have the same names.
            f"--tmpdir={self._data}",
            f"--init-file={self.directory}/first.sql",
            f"--socket={self.directory}/socket",
            f"--pid-file={self.directory}/mariadbd.pid",
            "--bind-address=127.0.0.1",
            f"--port={self.ports[0]}",
            "--skip-name-resolve",
            "--innodb-buffer-pool-size=64M",
            "--innodb-flush-log-at-trx-commit=2",
            "--innodb-doublewrite=0",
            "--max-connections=200",
            *self.more_options(),
        ]

    def more_options(self) -> list[str]:
        return []

    def answers(self) -> bool:
        # A ready server greets with protocol version 10; one that is starting or full sends an error packet.
        try:
            with socket.create_connection(("127.0.0.1", self.ports[0]), timeout=2) as client:
                return client.recv(5)[4:] == b"\x0a"
        except OSError:
            return False

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def _execute(self, statement: str) -> None:
        client = program("mariadb", "mariadb-client-core")
        subprocess.run(
            [client, "--no-defaults", "--user=root", f"--socket={self.directory}/socket", f"--execute={statement}"],
            check=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )

    def _url(self, database: str) -> str:
        return f"mysql+pymysql://root@127.0.0.1:{self.ports[0]}/{database}?charset=utf8mb4{self.tls}"


class SecureMariaDB(MariaDB):
    """Over TLS alone for the user `secure`, who must show a certificate of the same authority."""

    name = "mariadb-secure"
    tls = ""

    def __init__(self, authority: Authority, directory: Path | None = None) -> None:
        super().__init__(directory)
        self._authority = authority

    def prepare(self) -> None:
        super().prepare()
        self._made = self._authority.issue("mariadb", self.directory)
        with (self.directory / "first.sql").open("a") as file:
            file.write("CREATE USER IF NOT EXISTS secure@'127.0.0.1' REQUIRE X509;\n")
            file.write("GRANT ALL ON *.* TO secure@'127.0.0.1';\n")

    def more_options(self) -> list[str]:
        issued = self._made
        return [
            f"--ssl-ca={self._authority.certificate}",
            f"--ssl-cert={issued.certificate}",
            f"--ssl-key={issued.key}",
        ]

    def _url(self, database: str) -> str:
        return super()._url(database).replace("root@", "secure@")
