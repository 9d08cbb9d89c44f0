"""A cloud as operators have it: RabbitMQ, PostgreSQL, Keystone, Glance, and minova's executables, which users find in Keystone's catalog.

    python -m tests.servers.openstack_cloud start DIR LIBVIRT_URI    # prints the OS_* variables of the administrator; lives on
    python -m tests.servers.openstack_cloud stop DIR                 # ends it; its folder stays

For tools/demo --openstack. Each server has a folder of its own in DIR, and a keeper that ends it.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import urllib3

from tests.servers.glance import Glance
from tests.servers.keystone import PASSWORD, REGION, Keystone
from tests.servers.postgresql import PostgreSQL
from tests.servers.private_server import PrivateServer, ServerError, end_server, free_ports, keeper_of
from tests.servers.rabbitmq import RabbitMQ

BIN = Path(sys.executable).parent
COMPUTE = "minova-compute"
PROXY = "minova-consoleproxy"
EXECUTABLES = ("minova-api", "minova-conductor", "minova-scheduler", COMPUTE, PROXY)
# Those that the API lists as up.
LISTED = ("minova-conductor", "minova-scheduler", COMPUTE)
OWN_FILES = {COMPUTE: "compute.conf", PROXY: "consoleproxy.conf"}
# In the order of their starts.
NAMES = ("rabbitmq", "postgresql", "keystone", "glance", *EXECUTABLES)
# For a slow machine with two processors.
WITHIN = 120.0
USER = """auth_type = password
auth_url = {keystone}
username = {user}
password = {password}
user_domain_name = Default
project_name = {project}
project_domain_name = Default
"""
EVERY = """[DEFAULT]
host = {host}
state_path = {folder}
transport_url = {rabbitmq}
"""
CONTROLLER = """[api]
osapi_compute_listen_port = {port}
auth_strategy = keystone
[database]
connection = {database}
[vnc]
enabled = true
novncproxy_base_url = http://127.0.0.1:{proxy}/vnc_lite.html
[serial_console]
enabled = true
base_url = ws://127.0.0.1:{proxy}/
[glance]
backend = glance
region_name = {region}
[keystone_authtoken]
www_authenticate_uri = {keystone}
# The machine may be slow, and emulates a guest beside.
http_connect_timeout = 60
"""
HYPERVISOR = """compute_driver = libvirt
[glance]
endpoint_override = {api}
[libvirt]
connection_uri = {libvirt}
virt_type = qemu
[vnc]
enabled = true
[serial_console]
enabled = true
"""
# Consoles of guests are at loopback addresses, which the proxy of the same host reaches.
CONSOLES = """[consoleproxy]
port = {proxy}
"""


class Service(PrivateServer):
    """One of minova's executables: the one after which its folder is called. `conf`: its configuration."""

    name = "minova"
    close_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, directory: Path, conf: Path) -> None:
        super().__init__(directory)
        self._conf = conf

    def prepare(self) -> None:
        """The configuration is there."""

    def command(self) -> list[str]:
        return [str(BIN / self.directory.name), "--config-file", str(self._conf)]

    def answers(self) -> bool:
        """Whether it is up, only the API can tell."""
        return self.pid is not None


class Api(Service):
    """Its port is the first one that is free, and the configuration is written for it."""

    ports_needed = 1

    def __init__(self, directory: Path, conf: Path, text: Callable[[int], str]) -> None:
        super().__init__(directory, conf)
        self._text = text

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}"

    def prepare(self) -> None:
        write(self._conf, self._text(self.ports[0]))
        run("minova-manage", "--config-file", str(self._conf), "db", "upgrade")

    def answers(self) -> bool:
        try:
            return urllib3.request("GET", self.url, retries=False, timeout=5).status < 400
        except urllib3.exceptions.HTTPError:
            return False


def write(file: Path, text: str) -> None:
    """It has passwords."""
    file.touch(mode=0o600)
    file.write_text(text)


def run(program: str, *words: str) -> None:
    done = subprocess.run([str(BIN / program), *words], capture_output=True, text=True, timeout=180)
    if done.returncode:
        raise ServerError(f"{program} {' '.join(words)}: {done.stdout}{done.stderr}")


def start(directory: Path, libvirt_uri: str) -> Keystone:
    """Whatever lives there from the last time is ended first. ServerError: one of them does not start; nothing is left then."""
    stop(directory)
    try:
        return _start(directory, libvirt_uri)
    except BaseException:
        stop(directory)
        raise


def _start(directory: Path, libvirt_uri: str) -> Keystone:
    rabbitmq, postgresql = RabbitMQ(directory / "rabbitmq"), PostgreSQL(directory / "postgresql")
    keystone = Keystone(directory / "keystone", cached=True)
    with ThreadPoolExecutor(3) as pool:
        for started in [pool.submit(server.open, detached=True) for server in (rabbitmq, postgresql, keystone)]:
            started.result()
    keystone.add_project("service")
    # As administrator it reads and writes the images of all projects.
    keystone.grant(keystone.add_user("minova", service="service"), "service", "admin")
    glance = Glance(keystone, directory / "glance")
    glance.open(detached=True)
    publish(keystone, "image", glance.url)
    user = USER.format(keystone=keystone.url, user="minova", password=PASSWORD, project="service")
    database = postgresql.fresh_url()
    (proxy,) = free_ports(1)

    def controller(port: int) -> str:
        every = EVERY.format(host="controller", folder=directory / "controller", rabbitmq=rabbitmq.url)
        own = CONTROLLER.format(port=port, database=database, region=REGION, keystone=keystone.url, proxy=proxy)
        return f"{every}{own}{user}[service_user]\n{user}"

    files = {name: directory / OWN_FILES.get(name, "controller.conf") for name in EXECUTABLES}
    api = Api(directory / "minova-api", files["minova-api"], controller)
    api.open(detached=True)
    for kind, path in (("compute", "/v2.1"), ("network", "/network"), ("placement", "/placement")):
        publish(keystone, kind, f"{api.url}{path}")
    every = EVERY.format(host="vm", folder=directory / "compute", rabbitmq=rabbitmq.url)
    write(files[COMPUTE], every + HYPERVISOR.format(api=api.url, libvirt=libvirt_uri))
    every = EVERY.format(host="vm", folder=directory / "consoleproxy", rabbitmq=rabbitmq.url)
    write(files[PROXY], every + CONSOLES.format(proxy=proxy))
    for name in EXECUTABLES[1:]:
        Service(directory / name, files[name]).open(detached=True)
    wait_until_up(keystone, api.url, directory)
    return keystone


def publish(keystone: Keystone, kind: str, url: str) -> None:
    """In the catalog."""
    service = keystone.call("POST", "/services", {"service": {"type": kind, "name": kind}})["service"]
    endpoint = {"interface": "public", "url": url, "region_id": REGION, "service_id": service["id"]}
    keystone.call("POST", "/endpoints", {"endpoint": endpoint})


def wait_until_up(keystone: Keystone, url: str, directory: Path) -> None:
    """Conductor, scheduler and compute, as the API tells."""
    token, deadline = keystone.token(), time.monotonic() + WITHIN
    while time.monotonic() < deadline:
        answer: Any = urllib3.request("GET", f"{url}/v2.1/os-services", headers={"X-Auth-Token": token}, timeout=30)
        states = {row["binary"]: row["state"] for row in answer.json()["services"]} if answer.status == 200 else {}
        if all(states.get(name.replace("minova-", "nova-")) == "up" for name in LISTED):
            return
        ended = [name for name in NAMES if keeper_of(directory / name) is None]
        if ended:
            break
        time.sleep(0.2)
    words = "\n".join(f"--- {name}\n{last_words(directory / name)}" for name in EXECUTABLES)
    raise ServerError(f"the services are not up within {WITHIN:g} s\n{words}")


def last_words(directory: Path) -> str:
    log = directory / "server.log"
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:]) if log.exists() else ""


def stop(directory: Path) -> None:
    """In the opposite order. Nothing to do where there is none. ServerError: one does not end."""
    for name in reversed(NAMES):
        end_server(directory / name)


def main() -> int:
    parser = argparse.ArgumentParser(description="Start or stop a cloud of real OpenStack services and minova.")
    parser.add_argument("action", choices=("start", "stop"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("libvirt_uri", nargs="?", default="")
    options = parser.parse_args()
    directory = options.directory.resolve()
    # A Ctrl-C in the terminal reaches this process: what it has started ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        if options.action == "stop":
            stop(directory)
            return 0
        environment = start(directory, options.libvirt_uri).client_environment()
    except KeyboardInterrupt:
        return 130
    except ServerError as error:
        print(error, file=sys.stderr)
        return 1
    for name, value in environment.items():
        if name.startswith("OS_"):
            print(f"export {name}={value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
