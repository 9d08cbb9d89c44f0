"""Whatever a stolen machine sends changes nothing for others: random messages of every method that its services may call.

The messages are made from the contract's types, so that a new method is tried too. They pass the conductor's own checks, as the machine's user at
the broker sends them. Afterwards the rows of others are as before, the scheduler counts the same room on all other hosts for the same
reasons, and every service is asked for as much as before.

MINOVA_HOSTILE_REPORTS: how many messages; the nightly run sends 10,000.
"""

import os
import random
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import oslo_messaging
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, select

from minova import errors
from minova.cmd.conductor import implementation
from minova.context import RequestContext
from minova.contracts.base import Role, methods_of
from minova.contracts.conductor import ConductorApi
from minova.db import models
from minova.db.engine import Database
from minova.db.hosts import services
from minova.db.models import Base
from minova.messaging.dispatch import Endpoint
from minova.messaging.rpc_levels import CURRENT, version_of
from minova.objects.hosts.numa import InstanceNUMACell, InstanceNUMATopology
from minova.objects.requests.capacity import HostCapacity
from minova.scheduler.manager import SchedulerManager
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.scheduler.cloud import conf_of, flavor, named, spec_of
from tests.security.broker_cloud import MOVING, differences
from tests.security.hostile_values import Attacker
from tests.tables import make_tables

pytestmark = pytest.mark.timeout(3600)

MESSAGES = int(os.environ.get("MINOVA_HOSTILE_REPORTS", "300"))
OTHERS, ROGUE = ("a", "b"), "rogue"
ROLES = (Role.COMPUTE, Role.METADATA, Role.CONSOLEPROXY)
METHODS = sorted(
    (role, name) for name, method in methods_of(ConductorApi).items() for role in ROLES if role in method.audience.roles
)
Method = tuple[Role, str]
# Of the methods, which come more often than the others, and how many come once more at the end.
REPEATED = 8
CELLS = InstanceNUMATopology(cells=(InstanceNUMACell(id=0, cpuset=frozenset({0}), memory=64),))
# Requests that read all kinds of figures of a host.
SPECS = (
    spec_of(flavor(memory_mb=64, root_gb=0)),
    spec_of(flavor(memory_mb=64, root_gb=0), numa_topology=CELLS),
    spec_of(
        flavor(memory_mb=64, root_gb=0, extra_specs={"capabilities:cpu_info:arch": "x86_64", "io_workload": "< 4"})
    ),
    spec_of(flavor(memory_mb=64, root_gb=0, extra_specs={"hw:maxphysaddr_bits": "40"})),
)


# The database's file, what the rogue knows, and its own guests.
Prepared = tuple[Path, dict[str, tuple[Any, ...]], set[str]]


class Cloud:
    """Two honest hosts and the rogue one, with a guest each."""

    def __init__(self, url: str, guests: set[str]) -> None:
        self.guests = guests
        self.harness = ConductorHarness(url, hosts=(*OTHERS, ROGUE), prepared=True)
        manager: Any = self.harness.conductor
        self.endpoint = Endpoint(implementation(manager._manager), ConductorApi, known_senders=True)
        self.schedulers = [
            SchedulerManager(conf_of(metrics__weight_setting=["cpu.percent=1"]), self.harness.db, None, host="s")
        ]

    def send(self, role: Role, name: str, arguments: dict[str, Any]) -> Exception | None:
        """Returns the conductor's refusal. Raises what the conductor did not expect."""
        ctx = RequestContext(request_id="req-x", sender=f"{role.value}.{ROGUE}")
        try:
            getattr(self.endpoint, name)(ctx, **arguments)
        except oslo_messaging.ExpectedException as expected:
            refusal: Exception = expected.exc_info[1]
            return refusal
        finally:
            self.harness.settle()
        return None

    def of_others(self) -> dict[str, Any]:
        return {"rows": rows_of_others(self.harness.db, self.guests), "levels": self.levels(), "room": self.room()}

    def levels(self) -> dict[str, str]:
        with self.harness.db.read() as session:
            lowest = services.lowest_versions(session, 60.0)
        return {topic: version_of(topic, number) for topic, number in lowest.items() if topic in CURRENT}

    def room(self) -> list[HostCapacity]:
        return [
            host
            for scheduler in self.schedulers
            for spec in SPECS
            for host in sorted(scheduler.capacity(CTX, spec, 3).hosts, key=lambda one: one.host)
            if host.host != ROGUE
        ]


def rows_of_others(db: Database, guests: set[str]) -> dict[str, list[dict[str, Any]]]:
    """All rows but those of the rogue host, its nodes and its guests."""
    provider, node = models.ResourceProvider, models.ComputeNode
    with db.read() as session:
        nodes = dict(session.execute(select(node.uuid, node.id).where(node.host == ROGUE)).all())
        roots = set(session.scalars(select(provider.id).where(provider.uuid.in_(nodes))))
        providers = set(session.scalars(select(provider.id).where(provider.root_provider_id.in_(roots))))
        action = models.InstanceAction
        actions = set(session.scalars(select(action.id).where(action.instance_uuid.in_(guests))))
        own_service = select(models.Service.id).where(models.Service.host == ROGUE)
        mine = {
            "provider_id": providers | roots,
            "root_provider_id": roots,
            "node_id": set(nodes.values()),
            "compute_node_id": set(nodes.values()),
            "action_id": actions,
            "service_id": set(session.scalars(own_service)),
        }
        own = {ROGUE, *guests}
        rows_by_table = {
            name: sorted(
                (dict(row) for row in session.execute(select(table)).mappings() if not _is_of(row, own, mine)), key=str
            )
            for name, table in Base.metadata.tables.items()
            if name not in MOVING
        }
    rows_by_table["resource_providers"] = [
        row for row in rows_by_table["resource_providers"] if row["id"] not in providers
    ]
    return rows_by_table


def _is_of(row: Any, own: set[str], mine: dict[str, set[int]]) -> bool:
    return any(row.get(name) in ids for name, ids in mine.items()) or any(
        isinstance(value, str) and value in own for value in row.values()
    )


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """The cloud's database, and what the rogue knows of it."""
    file = tmp_path_factory.mktemp("cloud") / "minova.sqlite"
    make_tables(f"sqlite:///{file}")
    harness = ConductorHarness(f"sqlite:///{file}", hosts=(*OTHERS, ROGUE))
    guests = []
    for host in ("a", ROGUE):
        harness.scheduler.order = [host]
        guests.append(harness.active(host))
    # In progress: a build and an action on each of the two.
    for host in ("a", ROGUE):
        harness.scheduler.order = [host]
        guests += harness.create()
    actions = tuple(harness.act(uuid, "pause") for uuid in guests[:2])
    with harness.db.read() as session:
        nodes = session.execute(select(models.ComputeNode.id, models.ComputeNode.uuid)).all()
        images = tuple(session.scalars(select(models.Image.id)))
    with harness.db.write() as session:
        session.execute(delete(models.Worker))
    harness.close()
    known_values = {
        "host": (ROGUE,) * 9 + ("a",),
        "binary": ("minova-compute",) * 4 + ("minova-conductor",),
        "topic": ("compute",) * 3 + ("conductor",),
        "instance_uuid": (*guests, named("nothing")),
        "uuid": (*guests, *(uuid for _, uuid in nodes), named("service rogue"), named("service a")),
        "action_id": actions,
        "attempt": (0, 1, 2),
        "id": tuple(node_id for node_id, _ in nodes),
        "hypervisor_hostname": ("rogue-node", "rogue-node", "a-node", "b-node", "other"),
        "node": ("rogue-node", "a-node"),
        "image_id": (*images, named("image")),
        "task_state": ("pausing", ""),
        "step": ("spawning", "networking", None),
        "process": (named("process"), None),
        "request_id": ("req-1",),
        "resource_class": ("VCPU", "PCPU", "VGPU", "MEM_ENCRYPTION_CONTEXT", "MEMORY_MB", "DISK_GB"),
        **dict.fromkeys(("message", "sender", "cloud"), (None,)),
        "name": ("x", "cpu.percent"),
    }
    return (
        file,
        known_values,
        {uuid for host, uuid in zip((*OTHERS[:1], ROGUE) * 2, guests, strict=True) if host == ROGUE},
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clouds")


def cloud_of(prepared: Path, folder: Path, guests: set[str]) -> Iterator[Cloud]:
    copy = folder / "minova.sqlite"
    for old in folder.iterdir():
        old.unlink()
    shutil.copy(prepared, copy)
    cloud = Cloud(f"sqlite:///{copy}", guests)
    yield cloud
    cloud.harness.close()


def order_of(chosen: random.Random) -> list[Method]:
    """Returns each method once, and some of them in runs and again later: a second report may break what the first has set up."""
    order = chosen.sample(METHODS, len(METHODS))
    for method in chosen.sample(METHODS, min(REPEATED, len(METHODS))):
        place = chosen.randrange(len(order) + 1)
        order[place:place] = [method] * chosen.randint(1, 3)
    return order + chosen.choices(METHODS, k=REPEATED)


def test_methods_are_repeated_in_a_row() -> None:
    order = order_of(random.Random(1))
    assert {*order} == {*METHODS}
    assert any(first == second for first, second in pairwise(order))


@settings(max_examples=max(1, MESSAGES // (len(METHODS) + 3 * REPEATED)), database=None, phases=[Phase.generate])
@given(seed=st.integers(0, 2**63))
def test_bug_random_messages_of_one_machine_change_nothing_for_others(
    prepared: Prepared, folder: Path, seed: int
) -> None:
    """Each method at least once, in any order, and several of them again and again, also one after the other. A figure that no column holds
    stopped the scheduler, and a version that no release has the API.
    """
    file, known_values, guests = prepared
    chosen = random.Random(seed)
    for cloud in cloud_of(file, folder, guests):
        before = cloud.of_others()
        for role, name in order_of(chosen):
            arguments = Attacker(chosen.getrandbits(64), known_values).message(methods_of(ConductorApi)[name])
            refused = cloud.send(role, name, arguments)
            assert refused is None or isinstance(refused, errors.MinovaError), (name, refused)
        after = cloud.of_others()
        assert differences(before["rows"], after["rows"]) == {}
        assert (after["levels"], after["room"]) == (before["levels"], before["room"])
