"""A cloud of a controller and two hosts, installed by the pages. The computes have the fake driver."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.operators.machines import Machine
from tests.operators.pages import blocks, commands
from tests.servers.authority import Authority
from tests.waiting import wait_for

# What the packages of minova do not bring.
INCLUDED = (
    *(
        "apache2-utils",
        "ca-certificates",
        "dbus",
        "iproute2",
        "mariadb-server",
        "openssl",
        "postgresql",
        "procps",
        "rabbitmq-server",
        "sqlite3",
        "sudo",
    ),
    "systemd-sysv",
)
ADDRESSES = {"controller": "192.0.2.10", "hv1": "192.0.2.11", "hv2": "192.0.2.12"}
NAMES = "DNS:controller,DNS:localhost,IP:192.0.2.10"
# Servers of the controller do not start on hypervisors, nor libvirt anywhere: the computes have the fake driver.
LIBVIRT = ("libvirtd.service", "libvirtd.socket", "libvirt-guests.service")
SERVERS = ("epmd.socket", "mariadb.service", "postgresql.service", "rabbitmq-server.service")
# The packages do what these lines of the page do by hand.
BY_PACKAGES = (
    "sudo apt-get",
    "sudo useradd",
    "sudo install -d -o minova",
    "sudo python3 -m venv",
    "sudo cp etc/systemd",
)
DESK = "MINOVA_URL=https://controller:8774 MINOVA_USERNAME=admin MINOVA_PASSWORD=SECRET"
CONTROLLER_SERVICES = ("minova-conductor", "minova-scheduler", "minova-api")
BROKER_TLS = "[oslo_messaging_rabbit]\nssl = true\nssl_ca_file = /etc/minova/ca.crt\n"


class Cloud(NamedTuple):
    """`authority`: has signed the broker's certificate. `folder`: for files of the test."""

    controller: Machine
    hosts: dict[str, Machine]
    authority: Authority
    folder: Path

    def minova(self, words: str) -> Any:
        """What the command answers at the operator's desk, which is on the controller here."""
        return self.controller(f"{DESK} MINOVA_CACERT=/etc/minova/controller.crt minova {words}")

    def manage(self, words: str) -> str:
        return self.controller(f"sudo -u minova minova-manage {words}")

    def services(self) -> dict[tuple[str, str], dict[str, Any]]:
        listed = json.loads(self.minova("service list --long -f json"))
        return {(row["Binary"], row["Host"]): row for row in listed}

    def is_up(self, host: str) -> Callable[[], bool]:
        return lambda: self.services().get(("minova-compute", host), {}).get("State") == "up"

    def are_up(self) -> None:
        for host in self.hosts:
            wait_for(f"{host} is up", self.is_up(host))

    def restart_controller(self) -> None:
        self.controller(f"systemctl restart {' '.join(CONTROLLER_SERVICES)}")

    def issue(self, name: str, days: int | None = None) -> None:
        """Puts a certificate of the authority and its key into the folder where pages are typed. `days`: as of Authority.issue."""
        issued = self.authority.issue(name, self.folder, NAMES, days)
        self.controller.write(f"/{name}.crt", issued.certificate.read_text())
        self.controller.write(f"/{name}.key", issued.key.read_text())


def by_page(machine: Machine, block: str, skip: tuple[str, ...] = ()) -> None:
    """Types the commands of a block, in /. Passwords that a command asks for are SECRET."""
    for command in commands(block):
        if not command.startswith(skip):
            machine(command.replace("htpasswd -B", "htpasswd -i -B <<<SECRET"))


def installed(machines: dict[str, Machine], folder: Path) -> Cloud:
    """By the pages "Install", "The broker" and "Each hypervisor"."""
    authority = Authority(folder / "authority", days=100)
    hosts = {name: machine for name, machine in machines.items() if name != "controller"}
    cloud = Cloud(machines["controller"], hosts, authority, folder)
    _install_controller(cloud)
    for host in hosts.values():
        add_host(cloud, host)
    return cloud


def _install_controller(cloud: Cloud) -> None:
    controller = cloud.controller
    cloud.issue("broker")
    controller.write("/ca.crt", cloud.authority.certificate.read_text())
    certificates, rabbitmq_conf, management, *_ = blocks("broker.md", "TLS")
    by_page(controller, certificates)
    controller.write("/etc/rabbitmq/rabbitmq.conf", rabbitmq_conf)
    by_page(controller, management)
    by_page(controller, blocks("install.md", "Controller: packages, database, broker")[0], BY_PACKAGES)
    by_page(controller, blocks("install.md", "Controller: users and certificate")[0])
    conf, services, limits, bootstrap, *_ = blocks("install.md", "Controller: configuration and services")
    controller.write("/etc/minova/ca.crt", cloud.authority.certificate.read_text())
    text = conf.replace(":5672/", ":5671/") + BROKER_TLS
    controller.write("/etc/minova/minova.conf", text, "root:minova", "640")
    by_page(controller, services, BY_PACKAGES)
    by_page(controller, limits)
    by_page(controller, bootstrap)


def add_host(cloud: Cloud, host: Machine) -> None:
    """By the pages "Each hypervisor" and "Add a host"."""
    conf, units, *_ = blocks("install.md", "Each hypervisor")
    text = conf.replace(":5672/", ":5671/").replace("192.0.2.11", host.address)
    text = text.replace("[DEFAULT]\n", "[DEFAULT]\ncompute_driver = fake.FakeDriver\n") + BROKER_TLS
    host.write("/etc/minova/minova.conf", text, "root:minova", "640")
    host.write("/etc/minova/ca.crt", cloud.authority.certificate.read_text())
    host.write("/etc/minova/controller.crt", cloud.controller("cat /etc/minova/controller.crt"))
    by_page(host, units, BY_PACKAGES)
    wait_for(f"{host.name} is up", cloud.is_up(host.name))


def said(machine: Machine, unit: str, line: str, since: int = 0) -> Callable[[], bool]:
    """Asks whether the unit has logged the line, after the first `since` characters of its journal."""
    return lambda: line in machine.journal(unit)[since:]
