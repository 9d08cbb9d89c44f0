"""The servers that the tests start: they keep their data over a stop or a crash, and end with the process that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy

from tests.servers.keeper import descendants
from tests.servers.mariadb import MariaDB
from tests.servers.postgresql import PostgreSQL
from tests.servers.private_server import PrivateServer, ServerError, program
from tests.servers.rabbitmq import RabbitMQ
from tests.waiting import wait_for

CHECKOUT = Path(__file__).parents[2]
OWNER = """\
import sys, time
from tests.servers.{module} import {name}
server = {name}()
server.open()
print(server._keeper.pid, server.directory, flush=True)
time.sleep(600)
"""


def execute(url: str, statement: str) -> list[tuple[object, ...]]:
    engine = sqlalchemy.create_engine(url)
    try:
        with engine.begin() as connection:
            result = connection.execute(sqlalchemy.text(statement))
            return [tuple(row) for row in result] if result.returns_rows else []
    finally:
        engine.dispose()


@pytest.mark.parametrize("server_class", [PostgreSQL, MariaDB])
def test_a_database_keeps_what_was_committed_over_a_stop_and_a_crash(
    server_class: type[PostgreSQL | MariaDB], tmp_path: Path
) -> None:
    with server_class(tmp_path / "server") as server:
        url = server.fresh_url()
        execute(url, "CREATE TABLE things (number INTEGER)")
        for number, end in enumerate([server.stop, server.kill]):
            execute(url, f"INSERT INTO things VALUES ({number})")
            end()
            server.start()
        assert sorted(execute(url, "SELECT number FROM things")) == [(0,), (1,)]


def test_fresh_urls_differ(postgresql: PostgreSQL, mariadb: MariaDB, rabbitmq: RabbitMQ) -> None:
    for server in (postgresql, mariadb, rabbitmq):
        assert len({server.url, server.fresh_url(), server.fresh_url()}) == 3


@pytest.mark.parametrize(
    ("module", "name"), [("rabbitmq", "RabbitMQ"), ("postgresql", "PostgreSQL"), ("mariadb", "MariaDB")]
)
def test_nothing_is_left_when_the_owner_is_killed(module: str, name: str) -> None:
    command = [sys.executable, "-c", OWNER.format(module=module, name=name)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT) as owner:
        assert owner.stdout is not None
        pid, directory = owner.stdout.readline().split()
        family = {int(pid), *descendants(int(pid))}
        assert len(family) > 1
        owner.send_signal(signal.SIGKILL)
    wait_for(f"no process of {family} and no {directory}", lambda: not alive(family) and not Path(directory).exists())


def alive(pids: set[int]) -> set[int]:
    return pids & descendants(1)


def test_a_missing_program_names_its_package() -> None:
    with pytest.raises(ServerError, match="no-such-program is not installed: it is in the Debian package some-package"):
        program("no-such-program", "some-package")


class Broken(PrivateServer):
    """Ends at once."""

    name = "broken"

    def prepare(self) -> None:
        """Nothing to prepare."""

    def command(self) -> list[str]:
        return ["sh", "-c", "echo no luck today; exit 3"]

    def answers(self) -> bool:
        return False


def test_a_server_that_cannot_start_says_why_and_leaves_nothing() -> None:
    server = Broken()
    with pytest.raises(ServerError, match="no luck today"), server:
        pass
    assert not server.directory.exists()
    assert descendants(os.getpid()) & {server.pid or 0} == set()
