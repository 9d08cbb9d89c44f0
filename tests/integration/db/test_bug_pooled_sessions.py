"""Behind pgbouncer with transaction pooling, 124 of 128 requests got 503.

Prepared statements were not there or there already, and what one connection had set held for others: read-only transactions, and
the limit of a statement's time.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
import urllib3
from sqlalchemy import event, insert, select, text
from sqlalchemy.exc import DBAPIError

from minova import errors
from minova.context import service_context
from minova.db import schema
from minova.db.connections.time_limits import Timeouts
from minova.db.engine import Database
from minova.db.models import DeletedImage, Instance
from minova.db.upgrade import upgrade
from minova.objects.catalogue.flavor import Flavor
from tests.cluster import BOOK_BUS, Cluster
from tests.functional.test_cloud import People
from tests.servers.pgbouncer import SESSIONS, PgBouncer
from tests.waiting import wait_for

REQUESTS = 128
PATHS = ("/servers/detail", "/flavors/detail", "/os-hypervisors/detail")
FLAVOR = Flavor(flavorid="small", name="small", vcpus=1, memory_mb=64, root_gb=1)
TIMES = Timeouts(read_timeout=1)
# A sequence keeps what a transaction has taken when it is rolled back.
FAILS_ONCE = """
CREATE FUNCTION fails_once() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('tries') = 1 THEN
        RAISE 'a deadlock' USING ERRCODE = '40P01';
    END IF;
    RETURN current_setting('statement_timeout');
END $$
"""


@pytest.fixture
def url(pgbouncer: PgBouncer, postgresql_tables: str) -> str:
    return pgbouncer.url_of(postgresql_tables)


@pytest.fixture
def databases(url: str) -> Iterator[tuple[Database, Database]]:
    """One that reads and writes, one that only reads."""
    both = Database(url, timeouts=TIMES), Database(url, timeouts=TIMES, readonly=True)
    yield both
    for each in both:
        each.close()


def test_many_transactions_of_many_connections_share_few_sessions(databases: tuple[Database, Database]) -> None:
    writes, reads = databases

    def work(number: int) -> int:
        # Often enough that statements would be prepared.
        for name in [f"{number}-{step}" for step in range(10)]:
            writes.run(lambda session, name=name: session.execute(insert(DeletedImage).values(id=name)))  # type: ignore[misc]
            with reads.read() as session:
                assert session.scalar(select(DeletedImage.id).where(DeletedImage.id == name))
        return number

    with ThreadPoolExecutor(3 * SESSIONS) as threads:
        assert len(list(threads.map(work, range(3 * SESSIONS)))) == 3 * SESSIONS


def test_a_read_only_database_cannot_write_and_others_can(databases: tuple[Database, Database]) -> None:
    writes, reads = databases
    for number in range(3 * SESSIONS):
        with pytest.raises(DBAPIError, match="read-only transaction"), reads.read() as session:
            session.execute(insert(DeletedImage).values(id="never"))
        writes.run(lambda session, n=number: session.execute(insert(DeletedImage).values(id=str(n))))  # type: ignore[misc]


def test_a_statement_is_given_up_by_the_server_and_other_programs_are_not_limited(
    databases: tuple[Database, Database], url: str
) -> None:
    for database in databases:
        with pytest.raises(errors.ServiceUnavailable), database.read() as session:
            session.execute(text("SELECT pg_sleep(20)"))
    with psycopg.connect(url.replace("+psycopg", ""), prepare_threshold=None, autocommit=True) as other:
        for _ in range(2 * SESSIONS):
            assert other.execute("SHOW statement_timeout").fetchone() == ("0",)
            assert other.execute("SHOW default_transaction_read_only").fetchone() == ("off",)


def test_a_direct_connection_keeps_its_session(postgresql_tables: str) -> None:
    database = Database(postgresql_tables, timeouts=TIMES, readonly=True)
    statements: list[str] = []
    event.listen(database.engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2]))
    for _ in range(3):
        with database.read() as session:
            assert session.scalar(text("SHOW statement_timeout")) == "1s"
    assert statements == ["SHOW statement_timeout"] * 3
    database.close()


def test_a_read_that_is_repeated_after_a_deadlock_keeps_its_settings(databases: tuple[Database, Database]) -> None:
    writes, _ = databases
    with writes.write() as session:
        session.execute(text("CREATE SEQUENCE IF NOT EXISTS tries"))
        session.execute(text(FAILS_ONCE))
    with writes.read() as session:
        assert session.scalar(text("SELECT fails_once()")) == "1s"
    with writes.write() as session:
        session.execute(text("DROP FUNCTION fails_once; DROP SEQUENCE tries"))


def test_an_upgrade_through_it(pgbouncer: PgBouncer, fresh_postgresql_url: Callable[[], str]) -> None:
    url = pgbouncer.url_of(fresh_postgresql_url())
    with ThreadPoolExecutor() as threads:
        assert [*threads.map(upgrade, [url, url])] == [schema.head()] * 2


def test_a_cloud_behind_it_serves_many_requests_at_once(
    pgbouncer: PgBouncer, fresh_postgresql_url: Callable[[], str], tmp_path: Path
) -> None:
    url = pgbouncer.url_of(fresh_postgresql_url())
    http = urllib3.PoolManager(maxsize=REQUESTS)
    with Cluster(tmp_path, ["h0", "h1"], transport_url=BOOK_BUS, database_url=url, fake_vcpus=64) as cluster:
        cluster.conductor.create_flavor(service_context(), flavor=FLAVOR)
        image = People(cluster.url).image()
        server = {"name": "many", "flavorRef": FLAVOR.flavorid, "imageRef": image}

        def ask(number: int) -> tuple[int, bytes]:
            create = {"json": {"server": server}} if number % 4 == 0 else {}
            method, path = ("POST", "/servers") if create else ("GET", PATHS[number % 4 - 1])
            answer = http.request(method, f"{cluster.url}/v2.1{path}", timeout=300, retries=False, **create)  # type: ignore[arg-type]
            return answer.status, answer.data if answer.status >= 300 else b""

        with ThreadPoolExecutor(REQUESTS) as threads:
            assert Counter(threads.map(ask, range(REQUESTS))) == {
                (200, b""): REQUESTS * 3 // 4,
                (202, b""): REQUESTS // 4,
            }

        def states() -> Counter[str]:
            with cluster.db.read() as session:
                return Counter(session.scalars(select(Instance.vm_state)))

        wait_for("all servers to be active", lambda: states() == {"active": REQUESTS // 4})
