"""The operator's day: a cloud of three machines by the pages, then faults, each with the line that the operator looks for.

`MINOVA_DEBIAN_TREE` names a Debian with the packages that an earlier run has left; else the tests make one.
The computes have the fake driver: what libvirt and QEMU do is tried in tests/integration/virt.
"""

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple

import pytest

from tests.cluster import wait_for
from tests.operators.machines import Machine
from tests.operators.pages import blocks, commands
from tests.packages.debian_tree import debian_with_minova
from tests.servers.authority import Authority

pytestmark = pytest.mark.timeout(3600)
INCLUDED = (
    *(
        "apache2-utils",
        "ca-certificates",
        "dbus",
        "iproute2",
        "openssl",
        "postgresql",
        "procps",
        "rabbitmq-server",
        "sudo",
    ),
    "systemd-sysv",
)
ADDRESSES = {"controller": "192.0.2.10", "hv1": "192.0.2.11", "hv2": "192.0.2.12"}
# Servers of the controller do not start on hypervisors, nor libvirt anywhere: the computes have the fake driver.
LIBVIRT = ("libvirtd.service", "libvirtd.socket", "libvirt-guests.service")
SERVERS = ("epmd.socket", "postgresql.service", "rabbitmq-server.service")
# The packages do what these lines of the page do by hand.
BY_PACKAGES = (
    "sudo apt-get",
    "sudo useradd",
    "sudo install -d -o minova",
    "sudo python3 -m venv",
    "sudo cp etc/systemd",
)
DESK = {"MINOVA_URL": "https://controller:8774", "MINOVA_USERNAME": "admin", "MINOVA_PASSWORD": "SECRET"}
BROKER_TLS = "[oslo_messaging_rabbit]\nssl = true\nssl_ca_file = /etc/minova/ca.crt\n"
# A service stops within ten seconds whatever is out of reach; systemctl and a slow machine have their part.
STOPS_WITHIN = 20.0


class Cloud(NamedTuple):
    controller: Machine
    hosts: dict[str, Machine]
    broker_conf: str

    def minova(self, words: str) -> Any:
        """What the command answers at the operator's desk, which is on the controller here."""
        desk = " ".join(f"{name}={value}" for name, value in DESK.items())
        return self.controller(f"{desk} MINOVA_CACERT=/etc/minova/controller.crt minova {words}")

    def services(self) -> dict[tuple[str, str], dict[str, Any]]:
        listed = json.loads(self.minova("service list --long -f json"))
        return {(row["Binary"], row["Host"]): row for row in listed}

    def is_up(self, host: str) -> Callable[[], bool]:
        return lambda: self.services().get(("minova-compute", host), {}).get("State") == "up"


def by_page(machine: Machine, block: str, skip: tuple[str, ...] = ()) -> None:
    """Types the commands of a block. Passwords that a command asks for are SECRET."""
    for command in commands(block):
        if not command.startswith(skip):
            machine(command.replace("htpasswd -B", "htpasswd -i -B <<<SECRET"))


def install_controller(controller: Machine, authority: Authority, folder: Path) -> str:
    """Returns RabbitMQ's configuration."""
    made = authority.issue("broker", folder, "DNS:controller,IP:192.0.2.10")
    for name, file in (("ca.crt", authority.certificate), ("broker.crt", made.certificate), ("broker.key", made.key)):
        controller.write(f"/{name}", file.read_text())
    certificates, rabbitmq_conf, management, *_ = blocks("broker.md", "TLS")
    by_page(controller, certificates)
    controller.write("/etc/rabbitmq/rabbitmq.conf", rabbitmq_conf)
    by_page(controller, management)
    by_page(controller, blocks("install.md", "Controller: packages, database, broker")[0], BY_PACKAGES)
    by_page(controller, blocks("install.md", "Controller: users and certificate")[0])
    conf, services, bootstrap, *_ = blocks("install.md", "Controller: configuration and services")
    controller.write("/etc/minova/ca.crt", authority.certificate.read_text())
    text = conf.replace(":5672/", ":5671/") + BROKER_TLS
    controller.write("/etc/minova/minova.conf", text, "root:minova", "640")
    by_page(controller, services, BY_PACKAGES)
    by_page(controller, bootstrap)
    return rabbitmq_conf


def add_host(cloud: Cloud, host: Machine, authority: Authority) -> None:
    """By the pages "Each hypervisor" and "Add a host"."""
    conf, units, *_ = blocks("install.md", "Each hypervisor")
    text = conf.replace(":5672/", ":5671/").replace("192.0.2.11", host.address)
    text = text.replace("[DEFAULT]\n", "[DEFAULT]\ncompute_driver = fake.FakeDriver\n") + BROKER_TLS
    host.write("/etc/minova/minova.conf", text, "root:minova", "640")
    host.write("/etc/minova/ca.crt", authority.certificate.read_text())
    host.write("/etc/minova/controller.crt", cloud.controller("cat /etc/minova/controller.crt"))
    by_page(host, units, BY_PACKAGES)
    wait_for(f"{host.name} is up", cloud.is_up(host.name))


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with ExitStack() as stack:
        given = os.environ.get("MINOVA_DEBIAN_TREE")
        tree = Path(given) if given else stack.enter_context(debian_with_minova(*INCLUDED))
        # Not in memory: three machines write what a Debian writes.
        folder = Path(tempfile.mkdtemp(prefix="minova-day-", dir="/var/tmp"))
        stack.callback(rmtree, folder)
        hosts = "".join(f"{address} {name}\n" for name, address in ADDRESSES.items())
        machines = {}
        for name, address in ADDRESSES.items():
            masked = LIBVIRT if name == "controller" else (*LIBVIRT, *SERVERS)
            machines[name] = Machine(folder, tree, name, address, hosts, masked)
            stack.callback(machines[name].end)
            machines[name].connect(None if name == "controller" else machines["controller"])
        authority = Authority(folder / "authority", days=100)
        controller = machines.pop("controller")
        cloud = Cloud(controller, machines, install_controller(controller, authority, folder))
        for host in machines.values():
            add_host(cloud, host, authority)
        yield cloud


def said(machine: Machine, unit: str, line: str, since: int = 0) -> Callable[[], bool]:
    return lambda: line in machine.journal(unit)[since:]


def test_a_cloud_by_the_pages_builds_a_server(cloud: Cloud) -> None:
    cloud.controller("head -c 1M /dev/zero >/tmp/disk.raw")
    cloud.minova("image create tiny --disk-format raw --file /tmp/disk.raw")
    cloud.minova("server create web --flavor m1.nano --image tiny --wait")
    assert json.loads(cloud.minova("server show web -f json"))["status"] == "ACTIVE"
    for name, machine in (("controller", cloud.controller), *cloud.hosts.items()):
        assert machine("systemctl list-units --failed --no-legend --plain 'minova-*'") == "", name


def test_doctor_is_silent(cloud: Cloud) -> None:
    assert cloud.controller("sudo -u minova minova-manage doctor") == ""


def test_compute_stops_in_time_while_the_broker_is_away_and_leaves_no_process(cloud: Cloud) -> None:
    host = cloud.hosts["hv1"]
    cloud.controller("systemctl stop rabbitmq-server")
    try:
        wait_for("an outage", said(host, "minova-compute", "does not answer"))
        began = time.monotonic()
        host("systemctl stop minova-compute")
        assert time.monotonic() - began < STOPS_WITHIN
        assert host.run("pgrep --uid minova --list-full --full minova-compute").stdout == ""
    finally:
        cloud.controller("systemctl start rabbitmq-server")
        host("systemctl start minova-compute")
    wait_for("hv1 is up", cloud.is_up("hv1"))


def test_outage_of_the_broker_is_few_lines_without_traceback(cloud: Cloud) -> None:
    host = cloud.hosts["hv2"]
    before = len(host.journal("minova-compute"))
    cloud.controller("systemctl stop rabbitmq-server")
    try:
        wait_for("an outage", said(host, "minova-compute", "does not answer", before))
        time.sleep(15)  # the outage lasts: services would repeat their lines meanwhile
    finally:
        cloud.controller("systemctl start rabbitmq-server")
    wait_for("the end of the outage", said(host, "minova-compute", "answers again", before))
    lines = [line for line in host.journal("minova-compute")[before:].splitlines() if line.strip()]
    assert len(lines) <= 20, "\n".join(lines)
    assert not [line for line in lines if "Traceback" in line]
    wait_for("hv2 is up", cloud.is_up("hv2"))


def test_start_that_fails_says_why(cloud: Cloud) -> None:
    conf = cloud.controller("cat /etc/minova/minova.conf")
    cloud.controller("systemctl stop minova-conductor")
    try:
        wrong = conf.replace("minova:SECRET@localhost", "minova:WRONG@localhost")
        cloud.controller.write("/etc/minova/minova.conf", wrong, "root:minova", "640")
        before = len(cloud.controller.journal("minova-conductor"))
        assert cloud.controller.run("timeout 60 systemctl start minova-conductor").returncode != 0
        assert "password authentication failed" in cloud.controller.journal("minova-conductor")[before:]
    finally:
        cloud.controller.write("/etc/minova/minova.conf", conf, "root:minova", "640")
        cloud.controller("systemctl restart minova-conductor")
    wait_for("hv1 is up", cloud.is_up("hv1"))


def test_database_away_is_answered_and_logged_with_the_reason(cloud: Cloud) -> None:
    before = len(cloud.controller.journal("minova-conductor"))
    cloud.controller("systemctl stop postgresql")
    try:
        with pytest.raises(AssertionError, match="database"):
            cloud.minova("server list")
        wait_for("the reason", said(cloud.controller, "minova-conductor", "The database does not answer", before))
    finally:
        cloud.controller("systemctl start postgresql")
    wait_for("the end", said(cloud.controller, "minova-conductor", "The database answers again", before))
    assert "Traceback" not in cloud.controller.journal("minova-conductor")[before:]


def test_killed_compute_is_started_again(cloud: Cloud) -> None:
    host = cloud.hosts["hv1"]
    first = host("systemctl show --value --property=MainPID minova-compute")
    host(f"kill -KILL {first}")
    wait_for(
        "another process",
        lambda: host("systemctl show --value --property=MainPID minova-compute") not in {first, "0\n"},
    )
    wait_for("hv1 is up", cloud.is_up("hv1"))


def test_stopped_compute_is_shown_stopped_at_once(cloud: Cloud) -> None:
    host = cloud.hosts["hv2"]
    host("systemctl stop minova-compute")
    began = time.monotonic()
    wait_for("stopped", lambda: "stopped" in json.dumps(cloud.services()["minova-compute", "hv2"]), 30)
    assert not cloud.is_up("hv2")()
    assert time.monotonic() - began < 30
    host("systemctl start minova-compute")
    wait_for("hv2 is up", cloud.is_up("hv2"))


def test_services_of_root_become_services_of_minova(cloud: Cloud) -> None:
    """hv2 as release 0.1.0 left it: its files are root's."""
    host = cloud.hosts["hv2"]
    host("systemctl stop minova-compute && chown -R root:root /var/lib/minova && chmod 700 /var/lib/minova")
    before = len(host.journal("minova-compute"))
    host.run("timeout 30 systemctl start minova-compute")
    assert "Permission denied" in host.journal("minova-compute")[before:]
    host("mkdir -p /var/log/minova")  # a host with log_dir
    stop, _, hypervisor, *_ = blocks("upgrade.md", "Services of root")
    by_page(host, stop, ("sudo useradd",))
    by_page(host, hypervisor)
    host(
        "systemctl daemon-reload && systemctl reset-failed 'minova-*'; systemctl start minova-network-helper minova-compute"
    )
    wait_for("hv2 is up", cloud.is_up("hv2"))


def test_host_is_removed_by_the_page(cloud: Cloud) -> None:
    cloud.minova('service set hv2 --disable --disable-reason "is removed"')
    for server in json.loads(cloud.minova("server list --all-projects --host hv2 -f json")):
        cloud.minova(f"server delete {server['ID']} --wait")
    cloud.hosts["hv2"]("sudo systemctl disable --now minova-compute minova-metadata minova-network-helper")
    cloud.minova(f"service delete {cloud.services()['minova-compute', 'hv2']['ID']}")
    assert ("minova-compute", "hv2") not in cloud.services()
    assert "hv2" not in cloud.minova("hypervisor list")
