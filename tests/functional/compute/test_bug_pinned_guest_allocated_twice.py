"""What an instance holds is what the scheduler claimed for it: no audit adds to that, and one heals what older ones added."""

import logging
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from minova.db import models
from minova.objects.catalogue.flavor import Flavor
from minova.objects.hosts.compute_node import AvailableResources
from minova.objects.hosts.numa import NUMATopology
from minova.objects.servers.migration import MigrationType
from minova.placement.allocations import writes
from minova.placement.audit import gather, heal, node_audit
from minova.placement.audit.judge import FindingKind
from tests.functional.compute.migration_world import CTX, HOSTS, Machine, World, flavor

EXAMPLES = int(os.environ.get("MINOVA_SEQUENCES", "100")) // 20
Holding = dict[tuple[str, str], int]


class Dedicated(Machine):
    """Host `a` pins on all CPUs, as by default; the others keep CPUs 2-3 and 6-7 for pinned guests."""

    def host_view(self, node: str) -> AvailableResources:
        view = super().host_view(node)
        if node == "a" or view.numa_topology is None:
            return view
        cells = tuple(
            msgspec.structs.replace(
                cell, cpuset=frozenset(sorted(cell.cpuset)[:2]), pcpuset=frozenset(sorted(cell.cpuset)[2:])
            )
            for cell in view.numa_topology.cells
        )
        return msgspec.structs.replace(view, vcpus=4, pcpus=4, vgpus=2, numa_topology=NUMATopology(cells))


class Cloud(World):
    machine = Dedicated

    def held(self) -> dict[str, Holding]:
        """{consumer: {(provider, class): amount}}."""
        model, provider = models.Allocation, models.ResourceProvider
        query = select(model.consumer_uuid, provider.name, model.resource_class, model.used).join(
            provider, provider.id == model.provider_id
        )
        holdings: dict[str, Holding] = {}
        with self.db.read() as session:
            for consumer, name, resource_class, amount in session.execute(query):
                holdings.setdefault(consumer, {})[name, resource_class] = amount
        return holdings

    def audit(self) -> None:
        for host in HOSTS:
            self.computes[host].update_available_resource()
        self.settle()

    def suspects(self) -> list[Any]:
        with self.db.read() as session:
            nodes = session.scalars(select(models.ComputeNode)).all()
            held = {node.host: self.conductor.instances_of_host(CTX, host=node.host).instances for node in nodes}
            return [node_audit.suspects(session, node.uuid, held[node.host]) for node in nodes]

    def resized_in_place(self) -> set[str]:
        with self.db.read() as session:
            rows = session.scalars(select(models.Migration.value)).all()
        return {
            row.instance_uuid for row in rows if row.status == "finished" and row.dest_compute == row.source_compute
        }

    def findings(self) -> list[tuple[FindingKind, str]]:
        with self.db.read() as session:
            return [(finding.kind, finding.detail) for finding in gather.findings(session)]

    def rewrite(self, uuid: str, **resources: int) -> None:
        """The instance holds this of its node, and nothing else."""
        row = next(row for row in self.instances() if row.uuid == uuid)
        consumer_allocations = writes.ConsumerAllocations(
            consumer_uuid=uuid,
            allocations={self.tracker(str(row.host)).node.uuid: resources},
            consumer_type="INSTANCE",
        )
        self.db.run(lambda session: writes.replace(session, [consumer_allocations]))


@pytest.fixture
def cloud(tables: Path, tmp_path: Path) -> Iterator[Cloud]:
    cloud = Cloud(tmp_path / "world", tables)
    yield cloud
    cloud.close()


PINNED = flavor("pinned", 2, 512, hw__cpu_policy="dedicated")
MIXED = flavor("mixed", 3, 512, hw__cpu_policy="mixed", hw__cpu_dedicated_mask="1-2")
SIZE = {"MEMORY_MB": 512, "DISK_GB": 1}


@pytest.mark.parametrize(
    ("wanted", "resources"),
    [
        (PINNED, {"PCPU": 2}),
        (MIXED, {"PCPU": 2, "VCPU": 1}),
        (flavor("own", 2, 512, hw__cpu_policy="dedicated", hw__emulator_threads_policy="isolate"), {"PCPU": 3}),
        (flavor("by class", 2, 512, resources__PCPU="2"), {"PCPU": 2}),
        (flavor("gpu", 1, 512, resources__VGPU="1"), {"VCPU": 1, "VGPU": 1}),
        (flavor("no disk", 1, 512, resources__DISK_GB="0"), {"VCPU": 1, "DISK_GB": 0}),
    ],
    ids=lambda value: value.name if isinstance(value, Flavor) else "",
)
def test_audits_of_an_untouched_guest_change_no_allocation(
    cloud: Cloud, wanted: Flavor, resources: dict[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    uuid = cloud.boot(wanted)
    (host,) = {row.host for row in cloud.instances()}
    if host == "a" and "PCPU" in resources:
        resources = {"VCPU": wanted.vcpus}  # the second choice
    claimed = {(str(host), name): amount for name, amount in {**SIZE, **resources}.items() if amount}
    assert cloud.held() == {uuid: claimed}
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            cloud.audit()
            assert cloud.held() == {uuid: claimed}
    assert caplog.messages == []
    assert cloud.findings() == []


@pytest.mark.parametrize(
    ("wanted", "damaged", "right"),
    [
        (PINNED, {"PCPU": 2, "VCPU": 2}, {"PCPU": 2}),
        (MIXED, {"PCPU": 2, "VCPU": 3}, {"PCPU": 2, "VCPU": 1}),
    ],
    ids=["pinned", "mixed"],
)
@pytest.mark.parametrize("by", ["audit of the node", "placement audit"])
def test_what_older_releases_added_is_taken_back(
    cloud: Cloud,
    wanted: Flavor,
    damaged: dict[str, int],
    right: dict[str, int],
    by: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    uuid = _boot_on(cloud, wanted, "b")
    cloud.rewrite(uuid, **damaged, **SIZE)
    ((kind, detail),) = cloud.findings()
    assert kind is FindingKind.WRONG_AMOUNT
    assert f"VCPU={damaged['VCPU']}" in detail
    if by == "audit of the node":
        with caplog.at_level(logging.WARNING):
            cloud.audit()
        remedy = " ".join(f"{name}={amount}" for name, amount in sorted({**SIZE, **right}.items()))
        assert any(uuid in line and line.endswith(f"to hold {remedy}") for line in caplog.messages)
    else:
        assert [(healed.finding.kind, healed.reason) for healed in heal.fix(cloud.db)] == [
            (FindingKind.WRONG_AMOUNT, None)
        ]
    assert cloud.held()[uuid] == {("b", name): amount for name, amount in {**SIZE, **right}.items()}
    cloud.audit()
    assert cloud.findings() == []


def test_only_what_is_missing_is_restored(cloud: Cloud) -> None:
    uuid = _boot_on(cloud, PINNED, "b")
    for damaged in ({"PCPU": 2, "DISK_GB": 1}, {"MEMORY_MB": 512, "DISK_GB": 1}, {"PCPU": 1, **SIZE}):
        cloud.rewrite(uuid, **damaged)
        cloud.audit()
        assert cloud.held()[uuid] == {("b", "PCPU"): 2, ("b", "MEMORY_MB"): 512, ("b", "DISK_GB"): 1}


def test_a_pinned_guest_that_runs_on_shared_cpus_keeps_them(cloud: Cloud) -> None:
    """The scheduler's second choice stands, even on a host that has got PCPU since."""
    uuid = _boot_on(cloud, PINNED, "b")
    cloud.rewrite(uuid, VCPU=2, **SIZE)
    cloud.audit()
    assert cloud.held()[uuid] == {("b", "VCPU"): 2, ("b", "MEMORY_MB"): 512, ("b", "DISK_GB"): 1}


def test_what_the_flavor_does_not_name_is_left(cloud: Cloud) -> None:
    uuid = _boot_on(cloud, PINNED, "b")
    cloud.rewrite(uuid, PCPU=2, VGPU=1, **SIZE)
    cloud.audit()
    assert cloud.held()[uuid]["b", "VGPU"] == 1


def _boot_on(cloud: Cloud, wanted: Flavor, host: str) -> str:
    uuid = cloud.boot(wanted)
    (at,) = {row.host for row in cloud.instances() if row.uuid == uuid}
    if at != host:
        assert cloud.move(uuid, MigrationType.LIVE_MIGRATION, host, wanted)
        cloud.step(uuid, "completed")
    return uuid


# -- whatever is booted and moved --------------------------------------------------------------------------------------

CPUS = st.sampled_from(
    [
        {},
        {"hw:cpu_policy": "dedicated"},
        {"hw:cpu_policy": "dedicated", "hw:emulator_threads_policy": "isolate"},
        {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0"},
        {"hw:cpu_policy": "dedicated", "hw:numa_nodes": "2"},
        {"resources:PCPU": "2"},
        {"resources:VCPU": "1"},
    ]
)
OTHERS = st.sampled_from(
    [
        {},
        {"resources:VGPU": "1"},
        {"resources:DISK_GB": "0"},
        {"resources:MEMORY_MB": "100"},
        {"pci_passthrough:alias": "nic:1"},
    ]
)
FLAVORS = st.builds(
    lambda cpus, others: Flavor(
        flavorid="f", name="f", vcpus=2, memory_mb=256, root_gb=1, extra_specs={**cpus, **others}
    ),
    CPUS,
    OTHERS,
)
MOVES = st.sampled_from([None, MigrationType.RESIZE, MigrationType.EVACUATION])


@given(
    steps=st.lists(st.tuples(FLAVORS, MOVES, FLAVORS, st.sampled_from(HOSTS), st.booleans()), min_size=1, max_size=3)
)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.generate],
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@pytest.mark.timeout(0)
def test_no_audit_finds_anything_in_what_the_scheduler_claimed(tables: Path, steps: list[Any]) -> None:
    """Neither of what boots nor of what resizes and evacuations hold on both sides, before and after they end."""
    with tempfile.TemporaryDirectory() as folder:
        cloud = Cloud(Path(folder) / "world", tables)
        try:
            for first_flavor, kind, other, dest, ends in steps:
                uuid = cloud.boot(first_flavor)
                _stands(cloud)
                (at,) = {row.host for row in cloud.instances() if row.uuid == uuid}
                if kind is None or at is None or (kind is MigrationType.EVACUATION and dest == at):
                    continue
                target = other if kind is MigrationType.RESIZE else first_flavor
                if not cloud.move(uuid, kind, dest, target):
                    continue
                _stands(cloud)
                cloud.step(uuid, "finished" if kind is MigrationType.RESIZE else "done")
                _stands(cloud)
                if ends and kind is MigrationType.RESIZE:
                    cloud.step(uuid, "confirmed")
                    _stands(cloud)
        finally:
            cloud.close()


def _stands(cloud: Cloud) -> None:
    before = cloud.held()
    # A server that was resized on its own host holds what it needs beyond its old size: it is judged with its migration, and held right.
    assert {uuid for named in cloud.suspects() for uuid in named or ()} <= cloud.resized_in_place()
    assert cloud.findings() == []
    cloud.audit()
    assert cloud.held() == before
