"""Private servers for every test that asks for one. Each starts at the first use and runs until the last test.

A missing program fails the test with the name of its Debian package: a test that is skipped shows nothing.
"""

from __future__ import annotations

import gc
import logging
import shutil
import subprocess
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer

from minova.concurrency import threads
from tests import hangs, limits, locks, nightly, policies, routers, statements
from tests.distribution import Distribution
from tests.servers.authority import Authority
from tests.servers.galera import Galera
from tests.servers.libvirtd import Libvirtd
from tests.servers.mariadb import MariaDB
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgresql import PostgreSQL
from tests.servers.rabbitmq import RabbitMQ, SecureRabbitMQ
from tests.tables import delete_rows, make_tables

# How long an example takes says something of the machine's other work, and nothing of ours.
settings.register_profile("minova", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("minova")

limits.lift()
statements.share()
locks.check()
policies.share()
routers.share()

# Whichever test is collected first may import oslo.messaging before minova does.
threads.use_native()

BUILD_GUEST = Path(__file__).parents[1] / "tools" / "build-guest"


def pytest_addoption(parser: pytest.Parser) -> None:
    nightly.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    nightly.configure(config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    nightly.skip(config, items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Distribution:
    """With more than one process, each file of tests goes to the process that suits it."""
    return Distribution(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a failed test has left open is found by the garbage collector in a later one, which must not fail for it, too."""
    report = yield
    if report.failed:
        item.config.addinivalue_line("filterwarnings", "ignore::pytest.PytestUnraisableExceptionWarning")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    with hangs.end_process_at_hang(item):
        return (yield)


def pytest_collection_finish() -> None:
    """What was collected lives until the end: the garbage collector need not go through it again and again. Nor need it look as
    often as by default, which takes a twentieth of the time of a test over a database.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.fixture(scope="session", autouse=True)
def _level_of_logging() -> int:
    """Before any fixture of a module, a package or the session has set logging up."""
    return logging.getLogger().level


@pytest.fixture(autouse=True)
def _logging_that_a_test_set_up_ends_with_it(_level_of_logging: int) -> Iterator[None]:
    """A command that runs in this process lets oslo.log write to a stream that pytest captures, and then closes."""
    root = logging.getLogger()
    yield
    for handler in root.handlers[:]:
        if type(handler) is logging.StreamHandler or type(handler).__module__.startswith("oslo_log"):
            root.removeHandler(handler)
    root.setLevel(_level_of_logging)


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[RabbitMQ]:
    """The node itself, shared by all tests: a test that stops it must start it again."""
    with RabbitMQ(vhosts=40) as server:
        yield server


@pytest.fixture(scope="session")
def fresh_rabbit_url(rabbitmq: RabbitMQ) -> Callable[[], str]:
    """Gives a transport URL with a virtual host of its own, at each call."""
    return rabbitmq.fresh_url


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Whose certificates the secure servers show and trust."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def secure_rabbitmq(authority: Authority) -> Iterator[SecureRabbitMQ]:
    """A node with TLS and the management API, for users with few rights."""
    with SecureRabbitMQ(authority) as server:
        yield server


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """The server itself, shared by all tests: a test that stops it must start it again."""
    with PostgreSQL() as server:
        yield server


@pytest.fixture(scope="session")
def postgresql_url(postgresql: PostgreSQL) -> str:
    """The SQLAlchemy URL of the shared database."""
    return postgresql.url


@pytest.fixture(scope="session")
def fresh_postgresql_url(postgresql: PostgreSQL) -> Callable[[], str]:
    """Gives the SQLAlchemy URL of a new, empty database at each call."""
    return postgresql.fresh_url


@pytest.fixture(scope="session")
def kept_postgresql_url(postgresql: PostgreSQL) -> str:
    """The SQLAlchemy URL of a database with minova's tables, and with the rows that another test has left."""
    url = postgresql.fresh_url()
    make_tables(url)
    return url


@pytest.fixture
def postgresql_tables(kept_postgresql_url: str) -> str:
    """The SQLAlchemy URL of a database with minova's tables and no rows: to make the tables takes longer than most tests."""
    delete_rows(kept_postgresql_url)
    return kept_postgresql_url


@pytest.fixture(scope="session")
def pgbouncer(postgresql: PostgreSQL) -> Iterator[PgBouncer]:
    """In front of the shared PostgreSQL."""
    with PgBouncer(postgresql) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDB]:
    """The server itself, shared by all tests: a test that stops it must start it again."""
    with MariaDB() as server:
        yield server


@pytest.fixture(scope="session")
def fresh_mariadb_url(mariadb: MariaDB) -> Callable[[], str]:
    """Gives the SQLAlchemy URL of a new, empty database at each call."""
    return mariadb.fresh_url


@pytest.fixture(scope="session")
def kept_mariadb_url(mariadb: MariaDB) -> str:
    """The SQLAlchemy URL of a database with minova's tables, and with the rows that another test has left."""
    url = mariadb.fresh_url()
    make_tables(url)
    return url


@pytest.fixture
def mariadb_tables(kept_mariadb_url: str) -> str:
    """The SQLAlchemy URL of a database with minova's tables and no rows: to make the tables takes longer than most tests."""
    delete_rows(kept_mariadb_url)
    return kept_mariadb_url


@pytest.fixture(scope="session")
def galera() -> Iterator[Galera]:
    """Two nodes that take writes."""
    with Galera() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def libvirtd() -> Iterator[Libvirtd]:
    """The daemon itself, shared by all tests: a test that stops it must start it again."""
    with Libvirtd() as server:
        yield server


@pytest.fixture(scope="session")
def libvirt_uri(libvirtd: Libvirtd) -> str:
    """The connection URI of the shared libvirtd, which has real QEMU."""
    return libvirtd.uri


@pytest.fixture(scope="session")
def guest_image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bootable qcow2 that prints MINOVA-GUEST READY on its serial console. Never written to: make overlays.

    It lies where the tests write, which is memory in a whole run: while a boot loader waits for a disk, an emulated processor works.
    """
    result = subprocess.run([BUILD_GUEST], capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    if result.returncode != 0:
        pytest.fail(f"{BUILD_GUEST} failed\n{result.stderr}")
    return Path(shutil.copy(result.stdout.strip(), tmp_path_factory.mktemp("guest")))
