"""A private PostgreSQL on the loopback."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.servers import huge_pages
from tests.servers.authority import Authority
from tests.servers.private_server import PrivateServer, ServerError, program

BINARIES = "/usr/lib/postgresql"
PACKAGE = "postgresql"
# The SQLSTATE of a client that pg_hba.conf does not let in. A server that starts answers 57P03, cannot_connect_now.
INVALID_AUTHORIZATION = b"C28000\x00"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    # What was committed outlives the server's being killed; only a power cut would lose it.
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "200",
    # By default it takes the pages of 2 MiB that tests of guests have reserved. initdb has no such option.
    "huge_pages": "off",
}


def newest(name: str) -> str:
    """The program of the newest installed PostgreSQL."""
    versions = sorted(Path(BINARIES).glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)
    return program(name, PACKAGE, *map(str, versions))


def as_ordinary_user() -> list[str]:
    """A prefix for commands: PostgreSQL refuses to run as root.

    It keeps root's right to pass through folders, since those of pytest are closed to others.
    """
    if os.geteuid() != 0:
        return []
    try:
        pwd.getpwnam("postgres")
    except KeyError as missing:
        raise ServerError(f"there is no user postgres: it comes with the Debian package {PACKAGE}") from missing
    rights = ["--inh-caps=+dac_read_search,+dac_override", "--ambient-caps=+dac_read_search,+dac_override"]
    return ["setpriv", "--pdeathsig=KILL", "--reuid=postgres", "--regid=postgres", "--clear-groups", *rights]


def client(program: str, url: str, *options: object) -> None:
    """Run one of its programs, such as pg_dump, on the database of an SQLAlchemy URL."""
    database = url.replace("postgresql+psycopg:", "postgresql:")
    done = subprocess.run(
        [newest(program), f"--dbname={database}", *map(str, options)],
        timeout=180,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise ServerError(f"{program} failed\n{done.stderr}")


class PostgreSQL(PrivateServer):
    """`url` is one database for all; `fresh_url()` makes an empty one."""

    name = "postgresql"
    ports_needed = 1
    stop_signal = signal.SIGINT
    # An immediate shutdown: killed outright it would leave its shared memory segment behind.
    close_signal = signal.SIGQUIT

    def __init__(self, directory: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, environment)
        self._numbers = itertools.count(1)

    @property
    def url(self) -> str:
        return self._url("postgres")

    def fresh_url(self) -> str:
        """An SQLAlchemy URL of a new, empty database."""
        name = f"test_{next(self._numbers)}"
        subprocess.run(
            [newest("psql"), f"--dbname={self._libpq('postgres')}", "--quiet", f"--command=CREATE DATABASE {name}"],
            check=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
        return self._url(name)

    def ask(self, statement: str) -> str:
        """The answer to one statement, as psql prints it."""
        command = [newest("psql"), f"--dbname={self._libpq('postgres')}", "--no-psqlrc", "--tuples-only", "--no-align"]
        return subprocess.run(
            [*command, f"--command={statement}"],
            check=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        ).stdout.strip()

    def prepare(self) -> None:
        if self._data.exists():
            return
        ordinary = as_ordinary_user()
        self._data.mkdir()
        if ordinary:
            shutil.chown(self._data, "postgres", "postgres")
        with huge_pages.shared():
            result = subprocess.run(
                [*ordinary, newest("initdb"), f"--pgdata={self._data}", "--username=postgres", "--auth=trust"]
                + ["--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"],
                capture_output=True,
                text=True,
                timeout=120,
                stdin=subprocess.DEVNULL,
                cwd="/",
            )
        if result.returncode != 0:
            raise ServerError(f"initdb failed\n{result.stderr}")

    def command(self) -> list[str]:
        settings = SETTINGS | {"unix_socket_directories": "", "port": str(self.ports[0])} | self.more_settings()
        options = [f"--{name}={value}" for name, value in settings.items()]
        return [*as_ordinary_user(), newest("postgres"), "-D", str(self._data), *options]

    def more_settings(self) -> dict[str, str]:
        return {}

    def answers(self) -> bool:
        return self._answer_to_client().startswith(b"R")

    def _answer_to_client(self) -> bytes:
        """The first words to a client without TLS; none: there is no server. A connection is accepted, and encrypted, before the
        server is ready: "the database system is starting up".
        """
        try:
            with socket.create_connection(("127.0.0.1", self.ports[0]), timeout=2) as client:
                words = b"user\x00postgres\x00database\x00postgres\x00\x00"
                client.sendall((len(words) + 8).to_bytes(4, "big") + (3 << 16).to_bytes(4, "big") + words)
                return client.recv(1024)
        except OSError:
            return b""

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def _libpq(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.ports[0]}/{database}"

    def _url(self, database: str) -> str:
        return self._libpq(database).replace("postgresql:", "postgresql+psycopg:")


class Replica(PostgreSQL):
    """An asynchronous streaming replica of a primary, which takes its place when it is promoted."""

    name = "postgresql-replica"

    def __init__(self, primary: PostgreSQL, directory: Path, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, environment)
        self._primary = primary

    def prepare(self) -> None:
        if self._data.exists():
            return
        ordinary = as_ordinary_user()
        if ordinary:
            shutil.chown(self.directory, "postgres", "postgres")
        subprocess.run(
            [
                *ordinary,
                newest("pg_basebackup"),
                f"--dbname={self._primary._libpq('postgres')}",
                "--write-recovery-conf",
            ]
            + [f"--pgdata={self._data}", "--checkpoint=fast", "--no-sync"],
            check=True,
            timeout=180,
            stdin=subprocess.DEVNULL,
            cwd="/",
        )

    def has_all(self) -> bool:
        """Whether it has replayed all that the primary has written."""
        written = self._primary.ask("SELECT pg_current_wal_lsn()")
        return self.ask(f"SELECT pg_last_wal_replay_lsn() >= '{written}'") == "t"

    def lag(self) -> None:
        """It receives nothing more."""
        self.ask("ALTER SYSTEM SET primary_conninfo = ''")
        self.ask("SELECT pg_reload_conf()")

    def is_cut_off(self) -> bool:
        return self.ask("SELECT count(*) FROM pg_stat_wal_receiver") == "0"

    def take_over(self) -> None:
        """The primary is lost, and this one is promoted under its address."""
        self._primary.kill()
        self.stop()
        self._end_keeper()
        self.ports = list(self._primary.ports)
        self._keep(detached=False)
        self._wait_ready()
        self.ask("SELECT pg_promote()")


class SecurePostgreSQL(PostgreSQL):
    """Over TLS alone for its clients, who must show a certificate of the same authority with the user's name."""

    name = "postgresql-secure"

    def __init__(self, authority: Authority, directory: Path | None = None) -> None:
        super().__init__(directory)
        self._authority = authority

    def prepare(self) -> None:
        super().prepare()
        issued = self._authority.issue("postgresql", self._data)
        authorities = shutil.copy(self._authority.certificate, self._data / "ca.crt")
        if as_ordinary_user():
            for path in (*issued, authorities):
                shutil.chown(path, "postgres", "postgres")
        # The question whether it is ready is asked without TLS. The answer of a ready server is that there is no such entry here.
        (self._data / "pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 cert\n")

    def more_settings(self) -> dict[str, str]:
        names = {"ssl_cert_file": "postgresql.crt", "ssl_key_file": "postgresql.key", "ssl_ca_file": "ca.crt"}
        return {"ssl": "on", **{name: str(self._data / file) for name, file in names.items()}}

    def answers(self) -> bool:
        return INVALID_AUTHORIZATION in self._answer_to_client()
