"""Users at the broker, TLS to the database, and certificates that end."""

import shlex
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.operators.cloud import DESK, Cloud, by_page, said
from tests.operators.pages import blocks, commands, typed
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(3600)
# In the order of the page.
USERS = (
    *(("api", "controller"), ("conductor", "controller"), ("scheduler", "controller")),
    *(("compute", "hv1"), ("compute", "hv2"), ("metadata", "hv1"), ("metadata", "hv2")),
)
FOR_ALL = "/etc/minova/minova.conf.d/users.conf"


class Users:
    """Users at the broker, as the page makes them."""

    def __init__(self, cloud: Cloud) -> None:
        self.machines = {"controller": cloud.controller, **cloud.hosts}
        self._cloud = cloud
        self.used: list[tuple[str, str]] = []
        by_hand, by_api, _ = commands(blocks("broker.md", "A user for each service of each host")[0])
        self._by_hand = by_hand.partition("#")[0].strip()
        self._by_api = by_api.partition("#")[0].strip().replace("admin@broker", "admin@controller")

    def made(self, service: str, host: str, more: str = "") -> str:
        """Types what the command prints for the host of RabbitMQ. Returns what it prints for the service's own file."""
        printed = self._cloud.controller(f"sudo -u minova {self._words(self._by_hand, service, host)}{more}")
        command_lines = [line for line in printed.splitlines() if not line.startswith("#")]
        self._cloud.controller("\n".join(["set -e", *command_lines]))
        return self._options(printed, service, host)

    def made_by_api(self, service: str, host: str) -> str:
        # A terminal is asked for the password, a pipe is read.
        words = self._words(self._by_api, service, host)
        return self._options(self._cloud.controller(f"echo SECRET | sudo -u minova {words} 2>/dev/null"), service, host)

    def use(self, service: str, host: str, options: str) -> None:
        """The service reads its own file, and is connected as its user; others connect with their first request."""
        machine = self.machines[host]
        self.used.append((service, host))
        machine.write(own_file(service), options, "root:minova", "640")
        machine(f"systemctl restart minova-{service}")
        if service in ("conductor", "scheduler", "compute"):
            wait_for(f"{service}.{host}", lambda: f"{service}.{host}\n" in self.connected())

    def connected(self) -> str:
        return self._cloud.controller("rabbitmqctl --quiet list_connections user")

    def is_password(self, options: str, user: str) -> bool:
        return (
            self._cloud.controller.run(f"rabbitmqctl authenticate_user {user} {_password(options, user)}").returncode
            == 0
        )

    @staticmethod
    def _words(command: str, service: str, host: str) -> str:
        return command.replace(" hv1", f" {host}" if service == "compute" else f" {host} --service {service}")

    @staticmethod
    def _options(printed: str, service: str, host: str) -> str:
        first, *options = [line.removeprefix("# ") for line in printed.splitlines() if line.startswith("#")]
        assert first == f"In {own_file(service)} on {host}:"
        return "\n".join(options) + "\n"


def own_file(service: str) -> str:
    return f"/etc/minova/minova-{service}.conf"


def _password(options: str, user: str) -> str:
    return options.partition(f"rabbit://{user}:")[2].partition("@")[0]


@pytest.fixture
def users(cloud: Cloud) -> Iterator[Users]:
    users = Users(cloud)
    yield users
    used = [each for each in USERS if each in users.used]
    for service, host in used:
        users.machines[host](
            f"rm -f {own_file(service)} {own_file('manage')} {FOR_ALL} && systemctl restart minova-{service}"
        )
    for service, host in used:
        cloud.controller.run(f"rabbitmqctl delete_user {service}.{host}")
    cloud.are_up()


def test_a_running_cloud_gets_a_user_for_each_service(cloud: Cloud, users: Users) -> None:
    for service, host in USERS:
        users.use(service, host, users.made(service, host))
    cloud.are_up()
    for machine in users.machines.values():
        machine("install -d /etc/minova/minova.conf.d")
        machine.write(FOR_ALL, "[broker]\nper_host_users = true\n")
    for service, host in USERS:
        users.machines[host](f"systemctl restart minova-{service}")
    cloud.are_up()
    assert "minova\n" not in users.connected()
    assert "minova-manage.conf" in cloud.controller.run("sudo -u minova minova-manage doctor").stdout
    cloud.controller(*typed("broker.md", "ln -sf minova-conductor.conf"))
    assert cloud.manage("doctor") == ""


def test_a_user_that_exists_gets_a_new_password_that_works(cloud: Cloud, users: Users) -> None:
    for service, host in (("conductor", "controller"), ("compute", "hv1")):  # a conductor answers both kinds of users
        users.use(service, host, users.made(service, host))
    user, machine = "compute.hv1", cloud.hosts["hv1"]
    first = machine(f"cat {own_file('compute')}")
    second = users.made("compute", "hv1")
    assert [users.is_password(each, user) for each in (first, second)] == [False, True]
    # Connections remain, but a service that starts needs the new line.
    before = len(machine.journal("minova-compute"))
    machine("systemctl restart --no-block minova-compute")
    wait_for("the reason", said(machine, "minova-compute", "ACCESS_REFUSED", before))
    machine("systemctl stop minova-compute")
    users.use("compute", "hv1", second)
    third = users.made_by_api("compute", "hv1")
    assert [users.is_password(each, user) for each in (first, second, third)] == [False, False, True]
    users.use("compute", "hv1", third)
    fourth = users.made("compute", "hv1", " --existing")
    assert _password(fourth, user) == "PASSWORD"
    assert users.is_password(third, user)
    cloud.are_up()


def test_database_with_tls(cloud: Cloud) -> None:
    controller = cloud.controller
    cloud.issue("db")
    conf = controller("cat /etc/minova/minova.conf")
    by_page(controller, blocks("configure.md", "PostgreSQL itself")[0])
    page = blocks("configure.md", "TLS to the database")[0]
    tls = "\n".join(line for line in page.splitlines() if line.startswith(("ssl =", "ssl_ca_file")))
    try:
        # The page's own connection has the database on another host.
        secure = conf.replace("@localhost/minova\n", f"@localhost/minova\n{tls}\n")
        assert secure != conf
        controller.write("/etc/minova/minova.conf", secure, "root:minova", "640")
        cloud.restart_controller()
        cloud.are_up()
        query = "SELECT ssl, count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'minova' GROUP BY ssl"
        assert controller(f"sudo -u postgres psql -At -c {shlex.quote(query)}").startswith("t|")
        assert cloud.manage("doctor") == ""

        before = len(controller.journal("minova-conductor"))
        cloud.issue("db", days=-1)
        by_page(controller, blocks("configure.md", "PostgreSQL itself")[0])
        # The driver does not say why.
        reason = "certificate verify failed"
        wait_for("the reason", said(controller, "minova-conductor", reason, before))
        journal = controller.journal("minova-conductor")[before:]
        assert "The database " in next(line for line in journal.splitlines() if reason in line)
        assert "Traceback" not in journal
        (look,) = typed("configure.md", "openssl s_client")
        shown = controller(look.replace("db:5432", "localhost:5432"))
        assert "DNS:controller" in shown
        ended = shown.partition("notAfter=")[2].splitlines()[0]
        assert datetime.strptime(ended, "%b %d %H:%M:%S %Y GMT").replace(tzinfo=UTC) < datetime.now(UTC)
        cloud.issue("db")
        by_page(controller, blocks("configure.md", "PostgreSQL itself")[0])
        wait_for("the end", said(controller, "minova-conductor", "The database answers again", before))
    finally:
        controller(
            "rm /etc/postgresql/15/main/conf.d/tls.conf && sed -i 's/^hostssl/host/' /etc/postgresql/15/main/pg_hba.conf"
        )
        controller.write("/etc/minova/minova.conf", conf, "root:minova", "640")
        controller("systemctl restart postgresql")
        cloud.restart_controller()
    cloud.are_up()


def test_expired_certificate_of_the_api_is_a_warning_and_a_reload_takes_a_new_one(cloud: Cloud) -> None:
    controller = cloud.controller
    former = {name: controller(f"cat /etc/minova/controller.{name}") for name in ("crt", "key")}

    def put(days: int) -> None:
        cloud.issue("api", days)
        controller("install -o root -g minova -m 644 /api.crt /etc/minova/controller.crt")
        controller("install -o root -g minova -m 640 /api.key /etc/minova/controller.key")

    try:
        put(-1)
        before = len(controller.journal("minova-api"))
        controller("systemctl restart minova-api")
        wait_for("a warning", said(controller, "minova-api", "controller.crt ([api] ssl_cert_file) ended at", before))
        doctor_run = controller.run("sudo -u minova minova-manage doctor")
        assert doctor_run.returncode == 2
        assert "/etc/minova/controller.crt ([api] ssl_cert_file) has ended" in doctor_run.stdout
        controller("cp /ca.crt /etc/minova/desk.crt")
        listing = f"{DESK} MINOVA_CACERT=/etc/minova/desk.crt minova service list"
        refused = controller.run(listing)
        assert refused.returncode != 0
        assert "certificate has expired" in refused.stdout
        assert "Traceback" not in refused.stdout

        put(100)
        process = controller("systemctl show --value --property=MainPID minova-api")
        controller("systemctl reload minova-api")
        wait_for("the new one", lambda: controller.run(listing).returncode == 0)
        assert controller("systemctl show --value --property=MainPID minova-api") == process
    finally:
        for name, text in former.items():
            controller(f"printf %s {shlex.quote(text)} >/etc/minova/controller.{name}")
        controller("systemctl restart minova-api")
    cloud.are_up()


def test_bug_a_reason_that_changed_was_silent(cloud: Cloud) -> None:
    """The broker comes back with a certificate that has ended: first its port refuses connections, then its certificate does not do."""
    controller, host = cloud.controller, cloud.hosts["hv1"]
    units = {"minova-compute": host, "minova-conductor": controller, "minova-scheduler": controller}
    before = {unit: len(machine.journal(unit)) for unit, machine in units.items()}
    install = commands(blocks("broker.md", "TLS")[0])[1]
    controller("systemctl stop rabbitmq-server")
    try:
        for unit, machine in units.items():
            wait_for(f"an outage in {unit}", said(machine, unit, "The message broker does not answer", before[unit]))
        cloud.issue("broker", days=-1)
        controller(install)
        controller("systemctl start rabbitmq-server")
        for unit, machine in units.items():
            wait_for(f"the new reason in {unit}", said(machine, unit, "certificate has expired", before[unit]))
    finally:
        cloud.issue("broker")
        controller(install)
        controller("systemctl restart rabbitmq-server")
    cloud.are_up()
    for unit, machine in units.items():
        wait_for(f"the end in {unit}", said(machine, unit, "The message broker answers again", before[unit]))
        journal = machine.journal(unit)[before[unit] :]
        reasons = [line for line in journal.splitlines() if "certificate has expired" in line]
        # Each of several kinds of work may meet it once.
        assert len(reasons) <= 5, reasons
        assert "Traceback" not in journal
