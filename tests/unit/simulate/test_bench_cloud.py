"""The cloud of benchmarks: plausible hosts, and always the same ones."""

import hashlib
from typing import Any

import msgspec
import pytest

from minova.hardware.numa_counts import counts_of
from minova.scheduler.decide.chain import Rules
from minova.scheduler.decide.decision import decide
from minova.scheduler.filters.affinity import ServerGroupAntiAffinityFilter
from minova.scheduler.filters.availability_zone import AvailabilityZoneFilter
from minova.scheduler.filters.numa_topology import NUMATopologyFilter
from minova.simulate.bench_cloud import AGGREGATES, host_records, requests, topology, used_sixteenths
from tests.unit.scheduler.hosts import CONF, table_of

RECORDS = host_records(70)
SET = (
    *("id", "uuid", "generation", "host", "node", "service_id", "memory_mb", "memory_mb_used", "vcpus", "vcpus_used"),
    *("local_gb", "local_gb_used", "free_disk_mb", "num_instances", "num_io_ops", "host_ip", "image_support"),
    *("aggregates", "instances", "numa_topology", "stats", "inventories"),
)


def plain(value: Any) -> Any:
    """Without the order of sets, which says nothing."""
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, msgspec.Struct):
        return plain(msgspec.structs.asdict(value))
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def digest(value: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(plain(value), order="deterministic")).hexdigest()[:16]


def test_the_figures_on_the_pages_are_of_these_hosts_and_requests() -> None:
    """Another cloud has other figures. After a change of it, measure anew and write the new digests here."""
    hosts = {number: {name: getattr(record, name) for name in SET} for number, record in host_records(600).items()}
    wanted = {
        name: (
            spec.flavor,
            spec.image,
            spec.project_id,
            spec.availability_zone,
            spec.instance_group,
            spec.numa_topology,
            spec.resources,
        )
        for name, spec in requests(70).items()
    }
    assert (digest(hosts), digest(wanted)) == ("5eaf9675eb38b3c7", "f78cd40c7f759837")


def test_each_host_has_an_address_of_its_own() -> None:
    records = host_records(66_000, numa=False)
    addresses = {number: records[number].host_ip for number in (1, 255, 256, 65_535, 65_536, 66_000)}
    assert addresses == {
        1: "10.0.0.1",
        255: "10.0.0.255",
        256: "10.0.1.0",
        65_535: "10.0.255.255",
        65_536: "10.1.0.0",
        66_000: "10.1.1.208",
    }


@pytest.mark.parametrize("number", RECORDS)
def test_a_host_has_as_much_taken_of_everything(number: int) -> None:
    record, sixteenths = RECORDS[number], used_sixteenths(number)
    assert sixteenths == (number % 13 if number % 2 else 0)
    assert record.memory_mb_used * 16 == record.memory_mb * sixteenths
    assert record.vcpus_used * 16 == record.vcpus * sixteenths
    assert record.local_gb_used * 16 == record.local_gb * sixteenths
    assert record.free_disk_mb == (record.local_gb - record.local_gb_used) * 1024
    for name, used in (
        ("VCPU", record.vcpus_used),
        ("MEMORY_MB", record.memory_mb_used),
        ("DISK_GB", record.local_gb_used),
    ):
        assert record.inventories[name].used == used
    assert record.inventories["VCPU"].capacity == 4 * record.vcpus
    assert record.num_instances == len(record.instances) == sixteenths // 2
    assert record.numa_topology is not None
    for cell, counts in zip(record.numa_topology.cells, counts_of(record.numa_topology), strict=True):
        assert counts.free_pcpus * 16 == counts.pcpus * (16 - sixteenths)
        assert cell.memory_usage * 16 == cell.memory * sixteenths
        assert counts.pages[4] <= cell.memory * 1024
        assert {cpu for core in cell.siblings for cpu in core} == cell.cpuset
        assert {len(core) for core in cell.siblings} == {2}


def test_hosts_differ_in_their_names_and_in_the_cpus_that_are_taken() -> None:
    assert len({record.uuid for record in RECORDS.values()}) == 70
    assert len({uuid for record in RECORDS.values() for uuid in record.instances}) == sum(
        record.num_instances for record in RECORDS.values()
    )
    taken = {topology(3, number).cells[0].pinned_cpus for number in range(64)}
    assert len(taken) == 64
    assert host_records(3, numa=False)[3].numa_topology is None
    assert [len(cell.cpuset) for cell in topology(0).cells] == [32, 32]


def test_aggregates_are_zones_and_kinds_of_disks() -> None:
    zones = [dict(aggregate.metadata).get("availability_zone") for aggregate in AGGREGATES]
    assert zones == ["zone0", "zone1", "zone2", *[None] * 17]
    assert all(len(record.aggregates) == 2 for record in RECORDS.values())
    assert {dict(aggregate.metadata).get("ssd") for aggregate in AGGREGATES[3:]} == {"true", "false"}


@pytest.mark.parametrize("name", ["plain", "zone-group", "pinned-1", "pinned-2"])
def test_every_request_finds_a_host(name: str) -> None:
    rules = Rules(
        filters=[cls(CONF) for cls in (AvailabilityZoneFilter, NUMATopologyFilter, ServerGroupAntiAffinityFilter)],
        weighers=[],
        host_subset_size=1,
        shuffle_best_same_weighed_hosts=False,
        max_placement_results=0,
        draw=lambda n: 0,
    )
    spec = requests(70)[name]
    assert decide(table_of(*RECORDS.values()), spec, ["vm"], 0, rules).found == 1
    if spec.instance_group is not None:
        where = [record.id for record in RECORDS.values() if set(record.instances) & set(spec.instance_group.members)]
        assert where == [3, 15]
