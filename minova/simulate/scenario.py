"""A scenario file: hosts, aggregates and requests. Parsed strictly: unknown fields are rejected.

The names are Nova's. A name in place of a UUID stands for a UUID that is derived from the name (`uuid_of`).
"""

import gzip
import re
import uuid
from typing import Any

import msgspec

from minova import errors
from minova.codecs import Decoder

GZIP = b"\x1f\x8b"
NAMES = uuid.UUID("6f1c0f52-7d1a-4a53-8a0c-3f54ab1f6f11")
# Values that Nova accepts as text and converts to text.
Text = str | int | float | bool
# Nova's hints, properties and statistics may hold any JSON value.
Properties = dict[str, Any]


class ScenarioPages(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    size_kb: int
    total: int
    used: int = 0
    reserved: int = 0


class ScenarioCell(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    id: int = 0
    cpuset: list[int] = []
    pcpuset: list[int] = []
    memory: int = 0
    cpu_usage: int = 0
    memory_usage: int = 0
    pinned_cpus: list[int] = []
    siblings: list[list[int]] = []
    socket: int | None = None
    mempages: list[ScenarioPages] = []


class ScenarioPool(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    vendor_id: str = ""
    product_id: str = ""
    dev_type: str = "type-PCI"
    numa_node: int | None = None
    count: int = 1
    tags: dict[str, Text] = {}


class ScenarioHost(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """memory in MB, disk in GB; `heartbeat_age` in seconds."""

    host: str
    node: str | None = None
    uuid: str | None = None
    cell: str | None = None
    vcpus: int
    memory_mb: int
    local_gb: int
    vcpus_used: int = 0
    memory_mb_used: int = 0
    local_gb_used: int = 0
    disk_available_least: int | None = None
    cpu_allocation_ratio: float = 4.0
    ram_allocation_ratio: float = 1.0
    disk_allocation_ratio: float = 1.0
    hypervisor_type: str = "QEMU"
    hypervisor_version: int = 0
    host_ip: str | None = None
    supported_instances: list[tuple[str, str, str]] = []
    cpu_info: Properties | str | None = None
    stats: dict[str, Text | None] = {}
    metrics: list[Properties] = []
    disabled: bool = False
    forced_down: bool = False
    heartbeat_age: float = 0
    instances: list[str] = []
    instance_images: dict[str, Properties] = {}
    numa: list[ScenarioCell] | None = None
    pci_pools: list[ScenarioPool] = []


class ScenarioAggregate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    id: int | None = None
    name: str = ""
    hosts: list[str] = []
    metadata: dict[str, Text] = {}


class Size(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A flavor. memory and swap in MB, the other disks in GB."""

    name: str = "m1"
    vcpus: int = 1
    memory_mb: int = 512
    root_gb: int = 0
    ephemeral_gb: int = 0
    swap: int = 0
    extra_specs: dict[str, Text] = {}


class Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    policy: str
    uuid: str | None = None
    name: str = ""
    members: list[str] = []
    hosts: list[str] = []
    rules: dict[str, Text] = {}


class ScenarioPciRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    count: int = 1
    spec: list[dict[str, Text]] = []
    numa_policy: str | None = None


class ScenarioTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    cell: str | None = None
    allow_cross_cell_move: bool = False
    host: str | None = None
    node: str | None = None


class ScenarioRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A request. `consume`: the chosen host takes it, and its server joins the group, so that later requests see it."""

    id: str = ""
    instance_uuid: str | None = None
    project_id: str | None = None
    flavor: Size
    image: Properties | None = None
    image_id: str | None = None
    requested_destination: ScenarioTarget | None = None
    hints: Properties | None = None
    availability_zone: str | None = None
    ignore_hosts: list[str] | None = None
    force_hosts: list[str] | None = None
    force_nodes: list[str] | None = None
    retry_hosts: list[tuple[str, str]] | None = None
    group: Group | None = None
    pci_requests: list[ScenarioPciRequest] | None = None
    consume: bool = False


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`filters`: a list, or the name of a chain. `seed` only records how a generated scenario was made."""

    filters: list[str] | str | None = None
    config: dict[str, Any] = {}
    aggregates: list[ScenarioAggregate] = []
    hosts: list[ScenarioHost] = []
    requests: list[ScenarioRequest] = []
    seed: Any = None


_SCENARIO = Decoder(Scenario)


def read(data: bytes) -> Scenario:
    """Parses JSON, gzipped or not. Raises BadRequest, which names the place, as in `hosts[3].numa[0].memory`."""
    if data.startswith(GZIP):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError) as error:
            raise errors.BadRequest(f"not a whole gzip file: {error}") from None
    try:
        return _without_twins(_SCENARIO.from_json(data))
    except msgspec.ValidationError as error:
        raise errors.BadRequest(_placed(str(error))) from None
    except msgspec.DecodeError as error:
        raise errors.BadRequest(f"not JSON: {error}") from None


def _without_twins(scenario: Scenario) -> Scenario:
    """Rejects duplicate names: answers are by host, so one of two equal names would hide the other."""
    names: set[tuple[str, str]] = set()
    for number, host in enumerate(scenario.hosts):
        place = (host.host, host.node or host.host)
        if place in names:
            raise errors.BadRequest(f"hosts[{number}].host: {host.host} (node {place[1]}) stands there twice")
        names.add(place)
    return scenario


def uuid_of(name: str) -> str:
    """Returns the name itself if it is a UUID."""
    try:
        uuid.UUID(name)
    except ValueError:
        return str(uuid.uuid5(NAMES, name))
    return name


def _placed(text: str) -> str:
    """Converts `Expected `int`, got `str` - at `$.hosts[3].vcpus`` to `hosts[3].vcpus: expected int, got str`."""
    text_of_error, _, place = text.replace("`", "").partition(" - at ")
    text_of_error = text_of_error.replace("Object contains unknown field", "unknown key")
    text_of_error = text_of_error.replace("Object missing required field", "missing key")
    at = re.sub(r"^(key in )?\$\.?", r"\1", place) or "scenario"
    return f"{at}: {text_of_error[:1].lower()}{text_of_error[1:]}"
