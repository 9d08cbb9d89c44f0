"""TLS to RabbitMQ, PostgreSQL and MariaDB: certificates and host names are checked, and certificates of clients are shown."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy.exc import OperationalError

from minova import errors
from minova.cmd.startup import database
from minova.context import service_context
from minova.contracts.scheduler import SchedulerApi
from minova.db.connections.tls import connection_url
from minova.messaging.rpc import Rpc
from tests.cluster import configure
from tests.servers.authority import Authority, Certificate
from tests.servers.mariadb import SecureMariaDB
from tests.servers.postgresql import SecurePostgreSQL
from tests.servers.rabbitmq import SecureRabbitMQ

pytestmark = pytest.mark.timeout(300)


class Pki(NamedTuple):
    """What clients have: the authority of the servers, another one, and a certificate of the first."""

    authority: Authority
    stranger: Authority
    client: Certificate


@pytest.fixture(scope="module")
def pki(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Pki:
    folder = tmp_path_factory.mktemp("pki")
    return Pki(authority, Authority(folder, "stranger"), authority.issue("postgres", folder))


def options(pki: Pki, **changes: Any) -> dict[str, Any]:
    certificates = {"ssl_ca_file": pki.authority.certificate, "ssl_cert_file": pki.client.certificate}
    arguments = {"ssl": True, **certificates, "ssl_key_file": pki.client.key, **changes}
    return {name: str(value) if isinstance(value, Path) else value for name, value in arguments.items()}


# What makes a connection fail, for every server. `localhost` is in the certificates, 127.0.0.1 is not.
REFUSED = [
    ("of an unknown authority", lambda pki: {"ssl_ca_file": pki.stranger.certificate}, "localhost"),
    ("of the system's authorities, who do not know it", lambda _: {"ssl_ca_file": None}, "localhost"),
    ("of another host", lambda _: {}, "127.0.0.1"),
    ("without one of the client", lambda _: {"ssl_cert_file": None, "ssl_key_file": None}, "localhost"),
]
CASES = pytest.mark.parametrize(("change", "host"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])


# -- databases ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[SecurePostgreSQL, SecureMariaDB])
def server(request: pytest.FixtureRequest, authority: Authority) -> Iterator[Any]:
    with request.param(authority) as tls_server:
        yield tls_server


def select_one(folder: Path, url: str, **ssl: Any) -> int:
    changes = {f"database__{name}": value for name, value in ssl.items()}
    db = database.opened(configure(folder, database__connection=url, **changes))
    try:
        with db.read() as session:
            return int(session.connection().exec_driver_sql("SELECT 1").scalar_one())
    finally:
        db.close()


def test_database_is_reached_over_tls(server: Any, pki: Pki, tmp_path: Path) -> None:
    assert select_one(tmp_path, server.url.replace("127.0.0.1", "localhost"), **options(pki)) == 1


@CASES
def test_database_that_cannot_be_trusted_is_refused(
    server: Any, pki: Pki, tmp_path: Path, change: Callable[[Pki], dict[str, Any]], host: str
) -> None:
    url = server.url.replace("127.0.0.1", host)
    # MariaDB knows the client by its certificate, so for it one without is a wrong user.
    with pytest.raises((errors.ServiceUnavailable, OperationalError)):
        select_one(tmp_path, url, **options(pki, **change(pki)))


def test_database_without_tls_is_not_spoken_to_in_the_open(postgresql_url: str, pki: Pki, tmp_path: Path) -> None:
    with pytest.raises(errors.ServiceUnavailable):
        select_one(tmp_path, postgresql_url, **options(pki))


def test_tls_is_not_for_a_file(pki: Pki, tmp_path: Path) -> None:
    conf = configure(tmp_path, database__ssl=True)
    with pytest.raises(errors.InvalidConfiguration, match="for PostgreSQL and MariaDB"):
        connection_url(conf.database)


# -- the broker --------------------------------------------------------------------------------------------------------


def ask(folder: Path, server: SecureRabbitMQ, hosts: tuple[str, ...], **ssl: Any) -> None:
    """Call the scheduler, although none runs: NoAnswer or "no service" if the broker was reached, else ServiceUnavailable."""
    conf = configure(folder, host="h")
    url = "rabbit://" + ",".join(f"guest:guest@{host}:{server.tls_port}" for host in hosts) + "/"
    rpc = Rpc(conf, url)
    for name, value in ssl.items():
        conf.set_override(name, value or "", group="oslo_messaging_rabbit")
    try:
        rpc.client(SchedulerApi, retry=1, timeout=5).capacity(service_context(), spec={}, limit=1)  # type: ignore[arg-type]
    finally:
        rpc.close()


@pytest.mark.parametrize("hosts", [("localhost",), ("127.0.0.1", "localhost"), ("localhost", "127.0.0.1")])
def test_broker_is_reached_over_tls(
    secure_rabbitmq: SecureRabbitMQ, pki: Pki, tmp_path: Path, hosts: tuple[str, ...]
) -> None:
    """Of several hosts each is checked by its own name: the one whose name is wrong is passed over."""
    with pytest.raises(errors.ServiceUnavailable, match="no scheduler service is connected to the message broker"):
        ask(tmp_path, secure_rabbitmq, hosts, **options(pki))


@CASES
def test_broker_that_cannot_be_trusted_is_refused(
    secure_rabbitmq: SecureRabbitMQ, pki: Pki, tmp_path: Path, change: Callable[[Pki], dict[str, Any]], host: str
) -> None:
    with pytest.raises(errors.ServiceUnavailable, match="the message broker does not answer"):
        ask(tmp_path, secure_rabbitmq, (host,), **options(pki, **change(pki)))
