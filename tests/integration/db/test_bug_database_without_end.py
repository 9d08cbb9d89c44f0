"""A database that accepts connections and never answers held threads for ever; one that takes no writes any more, because another
server is the primary now, was an unexpected error, and its connections stayed in the pool.
"""

import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url

from minova import errors
from minova.db.connections.time_limits import Timeouts
from minova.db.engine import Database

SHORT = Timeouts(connect_timeout=2, read_timeout=1, tcp_user_timeout=2, pool_timeout=2)
# Far below what a thread that waits without end would take, far above what is asked for on a busy machine.
SOON = 60.0


@pytest.fixture(params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


class BlackHole:
    """Forwards to a server until `swallow` is set; from then on nothing comes through, and no connection is closed."""

    def __init__(self, port: int) -> None:
        self._behind = port
        self.swallow = False
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for each in (self._listening, *self._sockets):
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self._sockets.append(client)
            if self.swallow:
                continue
            behind = socket.create_connection(("127.0.0.1", self._behind))
            self._sockets.append(behind)
            for source, sink in ((client, behind), (behind, client)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                if not self.swallow:
                    sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


@pytest.fixture
def hole(server: Any) -> Iterator[BlackHole]:
    black_hole = BlackHole(server.ports[0])
    yield black_hole
    black_hole.close()


@pytest.fixture
def database(server: Any, hole: BlackHole) -> Iterator[Database]:
    url = make_url(server.fresh_url()).set(port=hole.port)
    database = Database(url.render_as_string(hide_password=False), timeouts=SHORT)
    yield database
    database.close()


def ask(database: Database) -> None:
    database.run(lambda session: session.execute(text("SELECT 1")))


def fails_soon(database: Database) -> str:
    begun = time.monotonic()
    with pytest.raises(errors.ServiceUnavailable) as caught:
        ask(database)
    assert time.monotonic() - begun < SOON
    return str(caught.value)


def test_an_answer_that_does_not_come_is_given_up(database: Database, hole: BlackHole) -> None:
    ask(database)
    hole.swallow = True
    for _ in range(2):  # the pooled connection, then a new one
        error = fails_soon(database)
        assert error == "The database does not answer."
    hole.swallow = False
    ask(database)


def test_a_peer_that_acknowledges_nothing_is_given_up_by_tcp(server: Any) -> None:
    """The kernel does it: shown is that it was told to."""
    database = Database(server.fresh_url(), timeouts=SHORT)
    try:
        with database.engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
            number = driver.fileno() if database.dialect == "postgresql" else driver._sock.fileno()
            with socket.socket(fileno=os.dup(number)) as peer:
                assert peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
                assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == SHORT.tcp_user_timeout * 1000
                assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) <= SHORT.tcp_user_timeout
    finally:
        database.close()


def test_a_statement_that_takes_too_long_is_given_up_by_the_server(server: Any) -> None:
    database = Database(server.fresh_url(), timeouts=SHORT)
    sleep = "SELECT pg_sleep(50)" if database.dialect == "postgresql" else "SELECT sleep(50)"
    begun = time.monotonic()
    try:
        with pytest.raises(errors.ServiceUnavailable):
            database.run(lambda session: session.execute(text(sleep)).scalar_one())
        assert time.monotonic() - begun < 40
        ask(database)
    finally:
        database.close()


@pytest.fixture
def demoted(server: Any) -> Iterator[Any]:
    """Switches the server to take no writes of new transactions."""
    url = server.fresh_url()
    database = Database(url)
    name = make_url(url).database
    postgresql = database.dialect == "postgresql"

    def switch(on: bool) -> None:
        if postgresql:
            with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.execute(text("SET default_transaction_read_only = off"))
                connection.execute(text(f"ALTER DATABASE {name} SET default_transaction_read_only = {on}"))
        else:
            server._execute(f"SET GLOBAL read_only = {int(on)}")

    yield url, switch
    switch(False)
    database.close()


def test_a_server_that_takes_no_writes_any_more_is_away_and_its_connections_are_dropped(demoted: Any) -> None:
    url, switch = demoted
    if url.startswith("mysql"):
        # root may write to a read-only server.
        owner = Database(url)
        with owner.engine.begin() as connection:
            connection.execute(text("CREATE OR REPLACE USER ordinary@'%' IDENTIFIED BY ''"))
            connection.execute(text("GRANT ALL ON *.* TO ordinary@'%'"))
            connection.execute(text("REVOKE SUPER, READ_ONLY ADMIN ON *.* FROM ordinary@'%'"))
        owner.close()
        url = url.replace("root@", "ordinary@")
    database = Database(url, timeouts=SHORT)
    insert = text("INSERT INTO something (id) VALUES (1)")
    try:
        database.run(lambda session: session.execute(text("CREATE TABLE something (id integer)")))
        switch(True)
        database.engine.dispose()  # PostgreSQL's setting is for new sessions
        with pytest.raises(errors.ServiceUnavailable, match=r"^The database does not answer\.$"):
            database.run(lambda session: session.execute(insert))
        pool: Any = database.engine.pool
        assert pool.checkedin() == 0 or pool._invalidate_time > 0
        switch(False)
        database.run(lambda session: session.execute(insert))
    finally:
        database.close()
