"""Database or broker away, at the start or in the middle of work: services wait and say so, and no instance is lost."""

import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import urllib3

from tests.integration.deployment import Deployment
from tests.servers.postgresql import PostgreSQL
from tests.servers.rabbitmq import RabbitMQ
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(400)

HOSTS = ("hv-a", "hv-b")
BUILDS = 12
# Seconds in which a person is told that the cloud cannot answer now; far below what HTTP clients wait.
TOLD_WITHIN = 30.0
OUTAGE = 20.0  # seconds
# Of each service: one for each kind of work that cannot go on, and for the end; not one for each try.
LINES_OF_AN_OUTAGE = 20
# A conductor notices for its lease and for all else.
CONNECTIONS = 2
LOUD = re.compile(r" (WARNING|ERROR|CRITICAL) ")


@pytest.fixture(scope="module")
def broker() -> Iterator[RabbitMQ]:
    with RabbitMQ() as server:
        yield server


@pytest.fixture(scope="module")
def database() -> Iterator[PostgreSQL]:
    with PostgreSQL() as server:
        yield server


@pytest.fixture
def deployment(tmp_path: Path, broker: RabbitMQ, database: PostgreSQL) -> Iterator[Deployment]:
    """Tables are there, and no service has started."""
    # Nova's default: a broker that is away for less does not make its hosts look dead.
    patient = {"service_down_time": 60}
    with Deployment(tmp_path, broker.fresh_url(), database.fresh_url(), DEFAULT=patient) as deployment:
        for host in HOSTS:
            deployment.compute(host, DEFAULT={"compute_driver": "fake"})
        deployment.manage("db", "upgrade")
        yield deployment


@pytest.fixture
def cloud(deployment: Deployment, tmp_path: Path) -> Deployment:
    deployment.start()
    deployment.wait_up()
    return stocked(deployment, tmp_path)


def stocked(deployment: Deployment, folder: Path) -> Deployment:
    disk = folder / "disk.raw"
    disk.write_bytes(b"\1" * 4096)
    deployment.cli("flavor", "create", "tiny", "--ram", "128", "--disk", "1", "--vcpus", "1")
    deployment.cli("image", "create", "i", "--file", str(disk), "--disk-format", "raw")
    return deployment


def create(cloud: Deployment, name: str, *more: str) -> None:
    cloud.cli("server", "create", name, "--flavor", "tiny", "--image", "i", *more)


def all_active(cloud: Deployment) -> None:
    """Each build that was begun has ended well."""

    def active() -> bool:
        statuses = [row["Status"] for row in cloud.json("server", "list")]
        assert "ERROR" not in statuses
        return statuses == ["ACTIVE"] * BUILDS

    try:
        wait_for("all are ACTIVE", active, 120)
    except AssertionError as error:
        raise AssertionError(
            f"{error}\n{cloud.cli('server', 'show', f'vm-{BUILDS}', check=False)}\n{cloud.logs()}"
        ) from None


def attempts_logged(cloud: Deployment, service: str, words: str) -> int:
    return sum(words in line for line in cloud.services[service].log.splitlines())


def error_lines(cloud: Deployment, names: Sequence[str] = ("conductor", "scheduler", *HOSTS)) -> dict[str, list[str]]:
    """By service, what its log has of warnings and errors, with each line of a traceback."""
    return {name: [line for line in cloud.services[name].log.splitlines() if LOUD.search(line)] for name in names}


def answer(cloud: Deployment, path: str) -> tuple[int, bytes]:
    """Status and body of a request to the API, which answers in time whatever is away."""
    begun = time.monotonic()
    response = urllib3.request("GET", cloud.url + path, timeout=TOLD_WITHIN, retries=False)
    assert time.monotonic() - begun < TOLD_WITHIN
    return response.status, response.data


@pytest.mark.nightly("half a minute; the other tests of the file have outages of both servers")
def test_services_wait_for_a_database_that_is_down_at_their_start(
    deployment: Deployment, database: PostgreSQL, tmp_path: Path
) -> None:
    controller = ("conductor", "scheduler", "api")
    database.stop()
    try:
        for name in controller:
            deployment.services[name].start()
        message = "database: The database does not answer"
        for name in controller:
            wait_for(f"{name} tries again", lambda name=name: attempts_logged(deployment, name, message) >= 3, 120)  # type: ignore[misc]
            # Each try is logged at debug level; the outage and the wait for its end are a warning each.
            warnings = error_lines(deployment, (name,))[name]
            assert len(warnings) == 2, warnings
            assert all("refused" in line for line in warnings)
            assert "trying again until it works" in warnings[1]
            assert "Traceback" not in deployment.services[name].log
    finally:
        database.start()
    for host in HOSTS:
        deployment.services[host].start()
    deployment.wait_up()
    create(stocked(deployment, tmp_path), "first", "--wait")


@pytest.mark.nightly("half a minute; the other tests of the file have outages of both servers")
def test_services_wait_for_a_broker_that_is_down_at_their_start(
    deployment: Deployment, broker: RabbitMQ, tmp_path: Path
) -> None:
    broker.stop()
    try:
        deployment.start()
        for name in ("conductor", "scheduler", *HOSTS):
            wait_for(f"{name} tries again", lambda name=name: attempts_logged(deployment, name, "refused") >= 1, 60)  # type: ignore[misc]
            assert "Traceback" not in deployment.services[name].log
    finally:
        broker.start()
    deployment.wait_up(timeout=90)
    create(stocked(deployment, tmp_path), "first", "--wait")


@pytest.mark.nightly("test_bug_restarts_cost_a_minute.py restarts the database in the middle of requests each day")
def test_the_database_goes_away_in_the_middle_of_builds(cloud: Deployment, database: PostgreSQL) -> None:
    before = error_lines(cloud)
    create(cloud, "vm", "--max", str(BUILDS))
    database.kill()
    begun = time.monotonic()
    try:
        for _ in range(2):
            status, body = answer(cloud, "/v2.1/servers/detail")
            assert (status, b"database does not answer" in body) == (503, True), body
        output = cloud.cli("server", "list", check=False)
        assert "The database does not answer" in output
        assert "Traceback" not in output
        time.sleep(max(0.0, begun + OUTAGE - time.monotonic()))
    finally:
        database.start()
    all_active(cloud)
    for name, lines in error_lines(cloud).items():
        of_outage = lines[len(before[name]) :]
        print(f"{name}: {len(of_outage)} warnings and errors")
        assert len(of_outage) <= LINES_OF_AN_OUTAGE, of_outage
        kinds = Counter(re.sub(r"[0-9a-f-]{8,}|\d+", "", LOUD.split(line)[-1]) for line in of_outage)
        assert max(kinds.values(), default=0) <= CONNECTIONS, of_outage


def test_the_broker_goes_away_in_the_middle_of_builds(cloud: Deployment, broker: RabbitMQ) -> None:
    create(cloud, "vm", "--max", str(BUILDS))
    broker.kill()
    try:
        assert answer(cloud, "/v2.1/servers/detail")[0] == 200
        output = cloud.cli("flavor", "create", "more", "--ram", "128", "--disk", "1", check=False)
        assert "Traceback" not in output
        assert "503" in output or "unavailable" in output.lower() or "answer" in output, output
    finally:
        broker.start()
    all_active(cloud)
