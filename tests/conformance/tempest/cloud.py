"""The cloud that Tempest tests: minova's real services over RabbitMQ and PostgreSQL, with a fake driver, a Keystone and a Glance."""

import contextlib
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import requests

from minova.cmd import consoleproxy
from minova.conf.scheduler import DEFAULT_FILTERS
from minova.virt.fake import consoles
from tests import limits
from tests.cluster import Cluster, configure
from tests.servers.glance import Glance
from tests.servers.keystone import PASSWORD, REGION, Keystone
from tests.servers.postgresql import PostgreSQL
from tests.servers.private_server import free_ports
from tests.servers.rabbitmq import RabbitMQ

Json = dict[str, Any]
HOSTS = ("compute1", "compute2")
NETWORK = "tempest-shared"
# The port of VNC's first display.
VNC = 5900
# name, MiB of memory, vCPUs, GiB of disk; the second one is larger.
FLAVORS = (("tempest.nano", 128, 1, 1), ("tempest.micro", 160, 1, 2))
# As Tempest looks for them.
ENDPOINTS = (("compute", "nova", "/v2.1"), ("network", "neutron", "/network"), ("placement", "placement", "/placement"))
# What operators write: docs/operators/keystone.md, images.md.
OPTIONS = """
[keystone_authtoken]
www_authenticate_uri = {keystone}
auth_url = {keystone}
auth_type = password
username = minova
password = {password}
user_domain_name = Default
project_name = service
project_domain_name = Default
# The machine that runs the tests may be very busy.
http_connect_timeout = 60
[glance]
backend = glance
[service_user]
auth_type = password
auth_url = {keystone}
username = admin
password = {password}
user_domain_name = Default
project_name = admin
project_domain_name = Default
"""
# Tempest's tests use more than the default ones.
FILTERS = (*DEFAULT_FILTERS, "SameHostFilter", "DifferentHostFilter")


class Cloud(NamedTuple):
    """What Tempest is told of it. `images`, `flavors`: ids of two."""

    keystone: str
    images: tuple[str, ...]
    flavors: tuple[str, ...]


# Adds the hosts to a cloud: its cluster, the URL of its broker, and a port for its console proxy. What they start ends with the stack.
Hosts = Callable[[contextlib.ExitStack, Cluster, str, int], None]


def fake_hosts(stack: contextlib.ExitStack, cluster: Cluster, _broker: str, proxy: int) -> None:
    cluster.add_compute(HOSTS[0])
    cluster.add_compute(HOSTS[1], vnc__server_proxyclient_address=_own_address())
    _serve_consoles(stack, cluster, proxy)


@contextlib.contextmanager
def cloud(hosts: Hosts = fake_hosts, image: bytes = b"\0" * 65536, **options: Any) -> Iterator[Cloud]:
    """`image`: the bytes of its images. `options`: as a Cluster takes them."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tempest")))
        rabbitmq, postgresql = stack.enter_context(RabbitMQ()), stack.enter_context(PostgreSQL())
        keystone = stack.enter_context(Keystone(cached=True, threads=1))
        keystone.add_project("service")
        keystone.add_user("minova", service="service")
        glance = stack.enter_context(Glance(keystone, threads=1))
        publish(keystone, "identity", "keystone", keystone.url)
        publish(keystone, "image", "glance", glance.url)
        (proxy,), broker = free_ports(1), rabbitmq.fresh_url()
        file = folder / "minova.conf"
        file.write_text(OPTIONS.format(keystone=keystone.url, password=PASSWORD))
        cluster = stack.enter_context(
            Cluster(
                folder / "cloud",
                (),
                transport_url=broker,
                database_url=postgresql.fresh_url(),
                files=[str(file)],
                api__auth_strategy="keystone",
                fake_vcpus=64,
                fake_memory_mb=65536,
                fake_local_gb=2048,
                # The option that Tempest expects, and OpenStack's own test environment has.
                shelved_offload_time=0,
                # Then guests read the password that is answered and the files that are sent.
                force_config_drive=True,
                filter_scheduler__enabled_filters=FILTERS,
                vnc__enabled=True,
                vnc__novncproxy_base_url=f"http://127.0.0.1:{proxy}/vnc_lite.html",
                consoleproxy__port=proxy,
                serial_console__enabled=True,
                serial_console__base_url=f"ws://127.0.0.1:{proxy}/",
                # As operators have them: the limits of a Cluster are lifted.
                **{f"quota__{name}": limit for name, limit in limits.DEFAULTS.items()},
                **options,
            )
        )
        hosts(stack, cluster, broker, proxy)
        for kind, name, path in ENDPOINTS:
            publish(keystone, kind, name, cluster.url + path)
        yield fill(keystone, glance.url, cluster.url, image)


def _serve_consoles(stack: contextlib.ExitStack, cluster: Cluster, port: int) -> None:
    """minova-consoleproxy, and QEMU's VNC server as the screen of each fake guest."""
    (screen,) = free_ports(1)
    qemu = ["qemu-system-x86_64", "-machine", "none", "-nodefaults", "-display", f"vnc=:{screen - VNC},share=ignore"]
    process = stack.enter_context(subprocess.Popen(qemu))
    stack.callback(process.terminate)
    consoles.CONSOLE_PORT = screen
    # A loopback address is reached on the host of the proxy alone.
    conf = configure(cluster.folder / "proxy", host=HOSTS[0], consoleproxy__port=port)
    proxy = consoleproxy.compose(conf, cluster.rpc("consoleproxy", conf))
    proxy.start()
    stack.callback(proxy.stop)


def _own_address() -> str:
    """Returns an address of this machine that is not loopback, if there is one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def publish(keystone: Keystone, kind: str, name: str, url: str) -> None:
    service = keystone.call("POST", "/services", {"service": {"type": kind, "name": name}})["service"]
    endpoint = {"interface": "public", "url": url, "region_id": REGION, "service_id": service["id"]}
    keystone.call("POST", "/endpoints", {"endpoint": endpoint})


def fill(keystone: Keystone, glance: str, minova: str, image: bytes) -> Cloud:
    with requests.Session() as session:
        session.headers["X-Auth-Token"] = keystone.token()
        flavors = [_make_flavor(session, minova, *flavor) for flavor in FLAVORS]
        images = [_make_image(session, glance, f"tempest-{number}", image) for number in (1, 2)]
        _make_network(session, f"{minova}/network/v2.0")
    return Cloud(keystone.url, tuple(images), tuple(flavors))


def _make_flavor(session: requests.Session, url: str, name: str, memory_mb: int, vcpus: int, local_gb: int) -> str:
    flavor = {"name": name, "ram": memory_mb, "vcpus": vcpus, "disk": local_gb}
    return str(_sent(session, "POST", f"{url}/v2.1/flavors", json={"flavor": flavor})["flavor"]["id"])


def _make_image(session: requests.Session, url: str, name: str, data: bytes) -> str:
    image = {"name": name, "visibility": "public", "disk_format": "raw", "container_format": "bare"}
    sent_id = _sent(session, "POST", f"{url}/v2/images", json=image)["id"]
    octets = {"Content-Type": "application/octet-stream"}
    _sent(session, "PUT", f"{url}/v2/images/{sent_id}/file", data=data, headers=octets)
    return str(sent_id)


def _make_network(session: requests.Session, url: str) -> None:
    network = _sent(session, "POST", f"{url}/networks", json={"network": {"name": NETWORK, "shared": True}})["network"]
    subnet = {"network_id": network["id"], "ip_version": 4, "cidr": "10.90.0.0/20"}
    _sent(session, "POST", f"{url}/subnets", json={"subnet": subnet})


def _sent(session: requests.Session, method: str, url: str, **more: Any) -> Json:
    answer = session.request(method, url, timeout=60, **more)
    assert answer.ok, f"{method} {url}: {answer.status_code} {answer.text[:300]}"
    return answer.json() if answer.content else {}
