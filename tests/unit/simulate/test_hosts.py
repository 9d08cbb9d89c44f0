"""Hosts of a scenario as a scheduler would have read them."""

from typing import Any

import msgspec
import pytest

from minova import errors
from minova.scheduler.hosts.record import HostRecord, ServiceFacts
from minova.simulate.hosts import host_records
from minova.simulate.scenario import Scenario, uuid_of

HOST: dict[str, Any] = {"host": "a", "vcpus": 4, "memory_mb": 1024, "local_gb": 10}


def scenario(*hosts: dict[str, Any], **more: Any) -> Scenario:
    return msgspec.convert({"hosts": list(hosts), **more}, Scenario)


def record(**more: Any) -> HostRecord:
    return host_records(scenario({**HOST, **more}), 60)[1]


def test_a_host_of_which_little_is_said_is_empty_and_up() -> None:
    plain = record()
    assert (plain.id, plain.service_id, plain.generation, plain.host, plain.node) == (1, 1, 0, "a", "a")
    assert (plain.vcpus, plain.memory_mb, plain.local_gb, plain.free_disk_mb) == (4, 1024, 10, 10240)
    assert (plain.vcpus_used, plain.memory_mb_used, plain.local_gb_used) == (0, 0, 0)
    assert (plain.num_instances, plain.num_io_ops, plain.failed_builds) == (0, 0, 0)
    assert (plain.cpu_allocation_ratio, plain.ram_allocation_ratio, plain.disk_allocation_ratio) == (4.0, 1.0, 1.0)
    assert plain.service == ServiceFacts()
    assert (plain.cpu_info, plain.host_ip, plain.numa_topology, plain.pci_pools) == ("", None, None, ())
    assert (plain.hypervisor_type, plain.hypervisor_version, plain.aggregates) == ("QEMU", 0, ())
    assert (plain.uuid, plain.cell_uuid) == (uuid_of("a"), uuid_of("cell"))


def test_what_is_said_counts() -> None:
    full = record(
        node="n",
        uuid="other",
        cell="cell2",
        vcpus_used=1,
        memory_mb_used=2,
        local_gb_used=3,
        disk_available_least=2,
        stats={"num_instances": 5, "io_workload": "6", "failed_builds": None, "x": True},
        host_ip="2001:DB8::1",
        cpu_info={"arch": "x86_64"},
        hypervisor_version=7,
        metrics=[{"name": "cpu.percent", "value": 0.5, "source": None}],
        instances=["vm"],
        instance_images={"vm": {"os_type": "linux"}, "other": {"a": 1}},
    )
    assert (full.node, full.uuid, full.cell_uuid) == ("n", uuid_of("other"), uuid_of("cell2"))
    assert (full.vcpus_used, full.memory_mb_used, full.local_gb_used, full.free_disk_mb) == (1, 2, 3, 2048)
    assert (full.num_instances, full.num_io_ops, full.failed_builds) == (5, 6, 0)
    assert full.stats == {"num_instances": "5", "io_workload": "6", "failed_builds": None, "x": "True"}
    assert (full.host_ip, full.cpu_info, full.hypervisor_version) == ("2001:db8::1", '{"arch":"x86_64"}', 7)
    assert [(metric.name, metric.value) for metric in full.metrics] == [("cpu.percent", 0.5)]
    assert full.instances == (uuid_of("vm"), uuid_of("other"))
    assert full.instance_images == ((("os_type", "linux"),), (("a", "1"),))
    assert record(cpu_info="text").cpu_info == "text"


@pytest.mark.parametrize(("age", "silent"), [(60, False), (61, True), (-60, False), (-61, True)])
def test_a_host_that_was_not_heard_for_the_down_time_is_silent(age: int, silent: bool) -> None:
    assert (record(heartbeat_age=age).service.silent_since == 0.0) is silent


def test_a_host_of_which_no_age_is_said_was_just_heard() -> None:
    assert host_records(scenario(HOST), 0)[1].service.silent_since is None


def test_aggregates_are_joined_once_in_their_order() -> None:
    aggregates = [
        {"name": "x", "hosts": ["b", "a", "a"], "metadata": {"k": 1}},
        {"id": 9, "name": "y", "hosts": ["a"]},
        {"name": "z"},
    ]
    records = host_records(scenario(HOST, {**HOST, "host": "b"}, aggregates=aggregates), 60)
    assert [(each.id, each.name, each.metadata) for each in records[1].aggregates] == [
        (1, "x", (("k", "1"),)),
        (9, "y", ()),
    ]
    assert [each.name for each in records[2].aggregates] == ["x"]
    assert [each.uuid for each in records[1].aggregates] == [uuid_of("aggregate 1"), uuid_of("aggregate 9")]
    assert list(records) == [1, 2]
    assert [each.host for each in records.values()] == ["a", "b"]


def test_cells_and_devices_are_those_of_the_file() -> None:
    pages = [{"size_kb": 4, "total": 10, "used": 2, "reserved": 1}, {"size_kb": 2048, "total": 5}]
    cell = {"id": 1, "cpuset": [0, 1], "pcpuset": [1], "memory": 9, "cpu_usage": 2, "memory_usage": 3}
    host = record(
        numa=[{**cell, "pinned_cpus": [1], "siblings": [[0, 1]], "socket": 1, "mempages": pages}, {}],
        pci_pools=[
            {"vendor_id": "8086", "product_id": "1572", "count": 3, "numa_node": 1, "tags": {"b": 1, "a": "x"}},
            {},
        ],
    )
    assert host.numa_topology is not None
    first, second = host.numa_topology.cells
    assert [first.id, *map(set, (first.cpuset, first.pcpuset, first.pinned_cpus))] == [1, {0, 1}, {1}, {1}]
    assert (first.memory, first.cpu_usage, first.memory_usage, first.socket) == (9, 2, 3, 1)
    assert [(page.size_kb, page.total, page.used, page.reserved, page.free) for page in first.mempages] == [
        (4, 10, 2, 1, 7),
        (2048, 5, 0, 0, 5),
    ]
    assert first.siblings == (frozenset({0, 1}),)
    assert (second.id, second.memory, second.cpu_usage, second.memory_usage) == (0, 0, 0, 0)
    pool, plain = host.pci_pools
    assert (pool.vendor_id, pool.count, pool.numa_node, pool.tags) == ("8086", 3, 1, (("a", "x"), ("b", "1")))
    assert (plain.dev_type, plain.count, plain.numa_node) == ("type-PCI", 1, None)
    assert record(numa=[]).numa_topology is None


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ({"stats": {"io_workload": "many"}}, r"hosts\[1\].stats.io_workload: expected a whole number, got 'many'"),
        ({"host_ip": "x"}, r"hosts\[1\].host_ip: expected an address, got 'x'"),
        (
            {"supported_instances": [["x86_64", "kvm", "hvm"], ["pdp11", "kvm", "hvm"]]},
            r"hosts\[1\].supported_instances\[1\]: ",
        ),
        ({"metrics": [{"name": "a"}, {"name": 5}]}, r"hosts\[1\].metrics\[1\]: "),
    ],
)
def test_what_is_wrong_names_its_place(wrong: dict[str, Any], place: str) -> None:
    with pytest.raises(errors.BadRequest, match=place):
        host_records(scenario(HOST, {**HOST, "host": "b", **wrong}), 60)
