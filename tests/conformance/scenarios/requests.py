"""Requests: flavors, images, hints, groups, destinations, devices; many in sequence, of which each consumes."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.conformance.scenarios.extra_specs import extra_specs
from tests.conformance.scenarios.images import image
from tests.conformance.scenarios.queries import query
from tests.conformance.scenarios.words import (
    CELLS,
    FLAVORS,
    IMAGES,
    NUMA_POLICIES,
    PROJECTS,
    ZONES,
    chance,
    picked,
    some,
    uuid_from,
)

Json = dict[str, Any]
Hosts = Sequence[Json]
POLICIES = ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")
DEVICE_SPECS: Sequence[dict[str, str]] = (
    {"vendor_id": "8086"},
    {"vendor_id": "8086", "product_id": "154c"},
    {"vendor_id": "15b3"},
    {"dev_type": "type-PF", "product_id": "1018"},
    {"dev_type": "type-VF", "remote_managed": "true"},
    {"dev_type": "vdpa", "physical_network": "phys1"},
    {"physical_network": "phys1"},
    {"physical_network": "phys2", "trusted": "true"},
    {"product_id": "1572", "live_migratable": "true"},
    {"product_id": "1572", "live_migratable": "false"},
    {"product_id": "154C"},
    {"vendor_id": "10de", "trusted": "TRUE"},
)
# Nothing at all, in its several spellings.
ODD: dict[str, Sequence[Any]] = {
    "image": (None, {}),
    "hints": (None, {}, {"group": "g"}),
    "group": (None, {"policy": "legacy"}, {"policy": "affinity"}),
    "retry_hosts": (None, []),
    "ignore_hosts": (None, [], [""]),
    "force_hosts": ([],),
    "force_nodes": (None,),
    "requested_destination": (None, {}),
    "pci_requests": ([], None, [{"count": 0, "spec": [{"vendor_id": "8086"}]}]),
    "availability_zone": (None, ""),
    "flavor": ({"vcpus": 0, "memory_mb": 0, "root_gb": 0}, {"vcpus": 1, "memory_mb": 512, "extra_specs": {}}),
    "instance_uuid": ("named",),
}


def requests(rng: random.Random, hosts: Hosts, count: int) -> list[Json]:
    consume = rng.choice((0.0, 0.5, 1.0))
    groups = [_group(rng, hosts, number) for number in range(4)]
    return [_request(rng, hosts, groups, f"r{number}", consume=chance(rng, consume)) for number in range(count)]


def _request(rng: random.Random, hosts: Hosts, groups: Sequence[Json], name: str, *, consume: bool) -> Json:
    request: Json = {"id": name, "flavor": _flavor(rng), "image": image(rng)}
    if consume:
        request["consume"] = True
    if chance(rng, 0.8):
        request["project_id"] = rng.choice(PROJECTS)
    rare: Sequence[tuple[str, float, Callable[[], Any]]] = (
        ("image_id", 0.6, lambda: rng.choice(IMAGES)),
        ("instance_uuid", 0.2, lambda: _server(rng, hosts)),
        ("hints", 0.35, lambda: _hints(rng, hosts)),
        ("availability_zone", 0.25, lambda: rng.choice((*ZONES, "az9"))),
        ("ignore_hosts", 0.1, lambda: _spelled(rng, some(rng, _names(hosts)))),
        ("force_hosts", 0.06, lambda: _spelled(rng, some(rng, _names(hosts), 3) or ["nowhere"])),
        ("force_nodes", 0.06, lambda: some(rng, [*_nodes(hosts), "HOST00001"], 3) or ["nowhere"]),
        ("retry_hosts", 0.12, lambda: _retry(rng, hosts)),
        ("group", 0.4, lambda: rng.choice(groups)),
        ("requested_destination", 0.15, lambda: _destination(rng, hosts)),
        ("pci_requests", 0.1, lambda: [_devices(rng) for _ in range(rng.randint(1, 2))]),
    )
    request |= {key: make() for key, probability, make in rare if chance(rng, probability)}
    if chance(rng, 0.1):
        _ask_by_image(rng, request)
    request |= picked(rng, ODD, 0.008)
    return request


def _ask_by_image(rng: random.Random, request: Json) -> None:
    """What the flavor asks of CPUs and memory, or some of it, stands in the image instead or too."""
    specs = request["flavor"]["extra_specs"]
    for key in [key for key in specs if key.startswith("hw:") and "maxphysaddr" not in key and chance(rng, 0.9)]:
        request["image"]["hw_" + key.removeprefix("hw:")] = specs[key] if chance(rng, 0.03) else specs.pop(key)


def _names(hosts: Hosts) -> list[str]:
    return [host["host"] for host in hosts]


def _nodes(hosts: Hosts) -> list[str]:
    return [host.get("node") or host["host"] for host in hosts]


def _server(rng: random.Random, hosts: Hosts) -> str:
    """One that is there, or a new one."""
    uuids: list[str] = [uuid for host in hosts for uuid in host["instances"]]
    return rng.choice([*uuids, uuid_from(rng)])


def _servers(rng: random.Random, hosts: Hosts, most: int) -> list[str]:
    return [_server(rng, hosts) for _ in range(rng.randint(0, most))]


def _spelled(rng: random.Random, names: Sequence[str]) -> list[str]:
    return [name.upper() if chance(rng, 0.4) else name for name in names]


def _flavor(rng: random.Random) -> Json:
    vcpus = rng.choice((1, 1, 2, 2, 3, 4, 4, 8, 16))
    memory = rng.choice((128, 256, 512, 1024, 1024, 2048, 3000, 4096, 12288))
    flavor: Json = {
        "vcpus": vcpus,
        "memory_mb": memory,
        "root_gb": rng.choice((0, 0, 1, 10, 20, 150)),
        "ephemeral_gb": rng.choice((0, 0, 5)),
        "swap": rng.choice((0, 0, 512, 1500)),
        "name": rng.choice(FLAVORS),
        "extra_specs": extra_specs(rng, vcpus, memory),
    }
    return flavor


def _group(rng: random.Random, hosts: Hosts, number: int) -> Json:
    members = sorted(set(_servers(rng, hosts, 20)))
    there = sorted({host["host"] for host in hosts if set(host["instances"]) & set(members)})
    group: Json = {"policy": rng.choice(POLICIES), "uuid": f"group{number}", "members": members}
    group["hosts"] = there if chance(rng, 0.8) else some(rng, [*_names(hosts), "nowhere"])
    if chance(rng, 0.4):
        group["rules"] = {"max_server_per_host": rng.choice((1, 2, 3, "2"))}
    return group


def _retry(rng: random.Random, hosts: Hosts) -> list[list[str]]:
    pairs = [[host["host"], host.get("node") or host["host"]] for host in hosts]
    return some(rng, [*pairs, [hosts[0]["host"], "other"]])


def _destination(rng: random.Random, hosts: Hosts) -> Json:
    target: Json = {"allow_cross_cell_move": chance(rng, 0.6)}
    if chance(rng, 0.8):
        target["cell"] = rng.choice((*CELLS, "cell9"))
    if chance(rng, 0.3):
        host = rng.choice(hosts)
        target["host"] = rng.choice((host["host"], host["host"], "nowhere", host["host"].upper()))
        if chance(rng, 0.4):
            target["node"] = rng.choice((host.get("node") or host["host"], "other"))
    return target


def _devices(rng: random.Random) -> Json:
    specs = [dict(rng.choice(DEVICE_SPECS)) for _ in range(rng.choice((1, 1, 2)))]
    pci_request: Json = {"count": rng.choice((1, 1, 2, 3)), "spec": specs}
    if chance(rng, 0.7):
        pci_request["numa_policy"] = rng.choice((*NUMA_POLICIES, None))
    return pci_request


def _hints(rng: random.Random, hosts: Hosts) -> Json:
    table: Sequence[tuple[str, float, Callable[[], Any]]] = (
        ("same_host", 0.25, lambda: _one_or_many(rng, _servers(rng, hosts, 4))),
        ("different_host", 0.25, lambda: _one_or_many(rng, _servers(rng, hosts, 6))),
        ("query", 0.4, lambda: _wrapped(rng, query(rng, hosts))),
        (
            "build_near_host_ip",
            0.25,
            lambda: rng.choice(("10.0.0.1", "10.0.1.200", ["10.0.0.17"], "10.0.0.999", "::1", "x")),
        ),
        ("cidr", 0.2, lambda: rng.choice(("/24", "/28", "/16", "/0", "/29", "24", ["/25"], "/33", "/x", ""))),
        ("_nova_check_type", 0.06, lambda: rng.choice((["rebuild"], ["live_migrate"], "rebuild"))),
        ("note", 0.1, lambda: "x"),
    )
    return {key: make() for key, probability, make in table if chance(rng, probability)}


def _one_or_many(rng: random.Random, names: list[str]) -> Any:
    return names[0] if names and chance(rng, 0.2) else names


def _wrapped(rng: random.Random, text: str) -> Any:
    return [text] if chance(rng, 0.5) else text
