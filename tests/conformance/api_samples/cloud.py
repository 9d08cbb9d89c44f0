"""A new minova for each sample test: real services in one process with a fake driver, and what Nova's tests find in theirs."""

import logging
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bcrypt
import requests

from minova.context import service_context
from minova.objects.network.network import AllocationPool, Network, Subnet
from tests import limits
from tests.cluster import BOOK_BUS, Cluster

Json = dict[str, Any]
PASSWORD = "secret"
# Nova's tests name users and projects in headers; here a user has a password and one project.
PROJECT = "6f70656e737461636b20342065766572"
# Those of the tests of usage.
OTHER_PROJECTS = ("0000000e737461636b20342065000000", "1111111e737461636b20342065111111")
# That of Nova's stand-in for Neutron.
SUBNET = "f8a6e8f8-c2ec-497c-9f23-da9616de54ef"
ROLES = {"fake": "member", "admin": "admin", "reader": "reader", "other": "other"}
# name, MiB of memory, vCPUs, GiB of disk, extra specs; their ids are 1 to 6.
FLAVORS: tuple[tuple[str, int, int, int, Json], ...] = (
    ("m1.tiny", 512, 1, 1, {}),
    ("m1.small", 2048, 1, 20, {}),
    ("m1.medium", 4096, 2, 40, {}),
    ("m1.large", 8192, 4, 80, {}),
    ("m1.xlarge", 16384, 8, 160, {}),
    ("m1.tiny.specs", 512, 1, 1, {"hw:numa_nodes": "1"}),
)


class Clouds:
    """One at a time."""

    def __init__(self) -> None:
        logging.disable()
        self._current: Cluster | None = None

    def new(self, wanted: Json) -> str:
        """Its URL, once it has the images, the network and the zone of the test."""
        self._end()
        options: Json = {"default_availability_zone": wanted["zone"]} if wanted["zone"] else {}
        if wanted["keeps_shelved"]:
            options["shelved_offload_time"] = -1
        if wanted["reclaim"]:
            options["reclaim_instance_interval"] = 3600
        self._current = started(options)
        for host in wanted["hosts"]:
            self._current.add_compute(host)
        fill(self._current, wanted)
        return self._current.url

    def add_compute(self, host: str) -> str:
        """Beside those of the newest cloud. Answers its URL."""
        assert self._current is not None
        self._current.add_compute(host)
        return self._current.url

    def close(self) -> None:
        self._end()

    def _end(self) -> None:
        """Before the next one starts: they share the bus of this process."""
        if self._current is not None:
            self._current.__exit__(None, None, None)
            shutil.rmtree(self._current.folder, ignore_errors=True)
            self._current = None


def started(options: Mapping[str, Any]) -> Cluster:
    folder = Path(tempfile.mkdtemp(prefix="samples"))
    projects = [f"{user}:{PROJECT}:{role}" for user, role in ROLES.items()]
    projects += [f"{user}-{project}:{project}:{role}" for project in OTHER_PROJECTS for user, role in ROLES.items()]
    users = [assignment.partition(":")[0] for assignment in projects]
    password = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    (folder / "users").write_text("".join(f"{user}:{password}\n" for user in users))
    cluster = Cluster(
        folder,
        [],
        transport_url=BOOK_BUS,
        api__auth_strategy="http_basic",
        api__http_basic_auth_user_file=str(folder / "users"),
        api__user_roles=projects,
        # The tests send files for the guest, which need one.
        force_config_drive=True,
        # As Nova's fake hypervisor is.
        fake_vcpus=2,
        fake_memory_mb=8192,
        fake_local_gb=1028,
        # A NUMA cell, which one of the flavors asks for.
        compute__cpu_shared_set="0-1",
        # Nova's tests of resizes set it.
        allow_resize_to_same_host=True,
        vnc__enabled=True,
        serial_console__enabled=True,
        # As operators have them: the limits of a Cluster are lifted.
        **{f"quota__{name}": limit for name, limit in limits.DEFAULTS.items()},
        **options,
    )
    cluster.__enter__()
    cluster.add_compute("compute", fake_nodes=["fake-mini"])
    return cluster


def fill(cluster: Cluster, wanted: Json) -> None:
    with requests.Session() as session:
        session.auth = ("admin", PASSWORD)
        _make_flavors(session, cluster.url)
        for image in wanted["images"]:
            _make_image(session, cluster.url, image)
    _make_network(cluster, wanted["network"])


def _make_flavors(session: requests.Session, url: str) -> None:
    for number, (name, memory_mb, vcpus, local_gb, specs) in enumerate(FLAVORS, start=1):
        flavor = {"id": str(number), "name": name, "ram": memory_mb, "vcpus": vcpus, "disk": local_gb}
        _sent(session, "POST", f"{url}/v2.1/flavors", json={"flavor": flavor})
        if specs:
            _sent(session, "POST", f"{url}/v2.1/flavors/{number}/os-extra_specs", json={"extra_specs": specs})


def _make_image(session: requests.Session, url: str, image: Json) -> None:
    record = {key: value for key, value in image["properties"].items() if value is not None}
    record |= {"id": image["id"], "name": image["name"], "visibility": "public"}
    _sent(session, "POST", f"{url}/v2/images", json=record | {"disk_format": "raw", "container_format": "bare"})
    octets = {"Content-Type": "application/octet-stream"}
    _sent(session, "PUT", f"{url}/v2/images/{image['id']}/file", data=b"\0" * 512, headers=octets)


def _make_network(cluster: Cluster, network_id: str) -> None:
    """By the conductor, because the Network API lets no caller choose an id."""
    ctx = service_context()
    network = Network(id=network_id, name="private", project_id=PROJECT, shared=True)
    cluster.conductor.create_networks(ctx, networks=(network,))[0]
    subnet = Subnet(
        id=SUBNET,
        network_id=network_id,
        project_id=PROJECT,
        ip_version=4,
        cidr="192.168.1.0/24",
        gateway_ip="192.168.1.1",
        allocation_pools=(AllocationPool(start="192.168.1.30", end="192.168.1.200"),),
    )
    cluster.conductor.create_subnets(ctx, subnets=(subnet,))[0]


def _sent(session: requests.Session, method: str, url: str, **more: Any) -> None:
    answer = session.request(method, url, timeout=60, **more)
    assert answer.ok, f"{method} {url}: {answer.status_code} {answer.text[:300]}"


@contextmanager
def clouds() -> Iterator[Clouds]:
    clouds = Clouds()
    try:
        yield clouds
    finally:
        clouds.close()
