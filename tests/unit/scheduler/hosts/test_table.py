"""The table: what was read, what decisions add, and back again."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minova.objects.requests.request_spec import KeptResources
from minova.scheduler.hosts.record import CLASS_COLUMNS, FLOAT_COLUMNS, WHOLE_COLUMNS, HostRecord, ServiceFacts
from minova.scheduler.hosts.table import HostTable
from tests.unit.scheduler.hosts import inventory, record, record_lists, spec_of, specs, table_of

NAMES = (*WHOLE_COLUMNS, *FLOAT_COLUMNS, *CLASS_COLUMNS)
CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB", "VGPU")
KEPT = KeptResources(
    host="host1", node="node1", resources={"VCPU": 2, "CUSTOM_NONE": 1}, vcpus=2, memory_mb=1024, disk_gb=10
)


def values(table: HostTable) -> list[Any]:
    return [{name: table.value(row, name) for name in NAMES} for row in range(len(table))]


def used(table: HostTable, resource_class: str) -> list[int]:
    return table.inventory(resource_class).used.tolist()  # type: ignore[no-any-return]


@given(records=record_lists())
def test_a_row_has_the_values_of_its_record(records: list[HostRecord]) -> None:
    table = table_of(*records)
    assert values(table) == [{name: getattr(each, name) for name in NAMES} for each in records]
    for row, each in enumerate(records):
        assert type(table.value(row, "vcpus")) is int
        assert type(table.value(row, "cpu_allocation_ratio")) is float
        for name in CLASSES:
            facts, one = each.inventories.get(name), table.inventory_of(row, name)
            expected = (
                (facts.capacity, facts.used, facts.min_unit, facts.max_unit, facts.step_size) if facts else [0] * 5
            )
            assert list(one) == list(expected)


@settings(max_examples=40)
@given(records=record_lists(), spec=specs())
def test_an_instance_adds_what_it_takes_to_its_row_alone(records: list[HostRecord], spec: Any) -> None:
    table, before = table_of(*records), table_of(*records)
    spec = msgspec.structs.replace(spec, numa_topology=None, pci_requests=())
    table.consume(0, spec, "new", resources={"VCPU": 3, "MEMORY_MB": 512})
    taken = {
        "memory_mb_used": spec.flavor.memory_mb,
        "vcpus_used": spec.flavor.vcpus,
        "free_disk_mb": -(spec.flavor.root_gb + spec.flavor.ephemeral_gb) * 1024,
        "num_instances": 1,
        "num_io_ops": 1,
    }
    for name in (*WHOLE_COLUMNS, *FLOAT_COLUMNS):
        assert table.value(0, name) == before.value(0, name) + taken.get(name, 0)
    assert values(table)[1:] == values(before)[1:]
    for name, amount in (("VCPU", 3), ("MEMORY_MB", 512), ("DISK_GB", 0), ("VGPU", 0)):
        known = any(name in each.inventories for each in records)
        assert used(table, name)[0] == used(before, name)[0] + (amount if known else 0)
        assert used(table, name)[1:] == used(before, name)[1:]
    assert table.restore() == {1}
    assert values(table) == values(before)
    assert table.instances_among(["new"]).tolist() == [0] * len(records)
    assert table.restore() == set()


def test_without_an_allocation_an_instance_takes_what_its_request_asks_for() -> None:
    table = table_of(record(1))
    table.consume(0, spec_of(memory_mb=512, vcpus=3, root_gb=4, ephemeral_gb=2))
    assert [used(table, name) for name in ("VCPU", "MEMORY_MB", "DISK_GB")] == [[3], [512], [6]]
    assert table.value(0, "free_disk_mb") == (500 - 6) * 1024


def test_the_image_of_an_instance_is_counted_once() -> None:
    table, spec = table_of(record(1)), spec_of(properties={"os_type": "linux", "a": "b"})
    table.consume(0, spec, "vm")
    assert table.value(0, "instance_images") == ((("a", "b"), ("os_type", "linux")),)
    table.consume(0, spec, "vm")
    assert len(table.value(0, "instance_images")) == 1
    table.consume(0, spec)
    assert len(table.value(0, "instance_images")) == 2
    table.consume(0, spec_of(), "other")
    assert len(table.value(0, "instance_images")) == 2
    assert table.host(0).instances_among(["vm", "other", "none"]) == 2
    assert list(table.instances_consumed(0)) == ["vm", "vm", "other"]


def test_what_a_server_keeps_is_taken_off_and_put_back() -> None:
    taken = {"memory_mb_used": 4096, "vcpus_used": 8, "local_gb_used": 100}
    table, before = table_of(record(1, **taken), record(2)), table_of(record(1, **taken), record(2))
    table.count_kept(0, KEPT, -1)
    assert [table.value(0, name) for name in ("memory_mb_used", "vcpus_used", "free_disk_mb")] == [
        4096 - 1024,
        8 - 2,
        (400 + 10) * 1024,
    ]
    assert used(table, "VCPU") == [6, 0]
    assert used(table, "MEMORY_MB") == [4096, 0]
    assert values(table)[1:] == values(before)[1:]
    table.count_kept(0, KEPT, 1)
    assert (values(table), used(table, "VCPU")) == (values(before), [8, 0])
    table.count_kept(0, KEPT, -1)
    assert table.restore() == {1}
    assert (values(table), used(table, "VCPU")) == (values(before), [8, 0])


def test_instances_are_found_on_their_rows() -> None:
    table = table_of(record(1, instances=("a", "b")), record(2, instances=("b",)), record(3))
    assert table.instances_among(["a", "b", "b", "none"]).tolist() == [2, 1, 0]
    assert [table.instances_among_row(row, ["a", "b", "b"]) for row in range(3)] == [2, 1, 0]
    table.apply({1: record(1, instances=("a",)), 3: record(3, instances=("b",))})
    assert table.instances_among(["b"]).tolist() == [0, 1, 1]


def test_nodes_of_a_host_share_its_instances_where_they_do() -> None:
    nodes = [record(1, host="a", instances=("vm",)), record(2, host="a"), record(3, host="A"), record(4, host="b")]
    assert table_of(*nodes, share_instances=True).instances_among(["vm"]).tolist() == [1, 1, 0, 0]
    assert table_of(*nodes).instances_among(["vm"]).tolist() == [1, 0, 0, 0]
    assert not HostTable().share_instances


def test_rows_are_in_the_order_of_the_ids_and_a_host_may_go() -> None:
    table = table_of(record(5), record(2))
    assert [each.id for each in table.records] == [2, 5]
    table.consume(0, spec_of(memory_mb=512), "vm")
    table.apply({5: None, 3: record(3), 9: None})
    assert (table.row_of, len(table)) == ({2: 0, 3: 1}, 2)
    assert [table.value(row, "memory_mb_used") for row in range(2)] == [512, 0]
    assert table.rows_of_host("host5") == []
    assert table.rows_of_host("host3") == [1]
    table.apply({2: None})
    assert table.instances_among(["vm"]).tolist() == [0]
    # The node that consumed is no longer there.
    assert table.restore() == {2}


def test_a_service_is_silent_while_it_is_said_to_be() -> None:
    table = table_of(record(1), record(2), record(3, service_id=1))
    silent = ServiceFacts(silent_since=5.0)
    table.set_silent({1: 5.0})
    assert [table.value(row, "service") for row in range(3)] == [silent, ServiceFacts(), silent]
    table.apply({2: record(2, service_id=1)})
    assert table.value(1, "service") == silent
    table.set_silent({2: 5.0})
    assert [table.value(row, "service") for row in range(3)] == [ServiceFacts()] * 3


def test_a_class_of_resources_may_come_with_any_host() -> None:
    table = table_of(record(1), record(2))
    assert used(table, "VGPU") == [0, 0]
    table.apply({2: record(2, inventories={"VGPU": inventory(4, 1)})})
    columns = table.inventory("VGPU")
    assert (columns.capacity.tolist(), columns.used.tolist()) == ([0, 4], [0, 1])
    assert columns.max_unit.tolist() == [0, 4]
    assert table.inventory("DISK_GB").capacity.tolist() == [500, 0]
    # A unit that all hosts share is one number.
    assert table.inventory("VGPU").min_unit.tolist() == [0, 1]
    table.apply({1: record(1, inventories={"VGPU": inventory(8, 2)})})
    assert (table.inventory("VGPU").min_unit, table.inventory("VGPU").step_size) == (1, 1)
    assert table.inventory("VGPU").max_unit.tolist() == [8, 4]


def test_a_number_of_a_class_is_one_number_where_all_hosts_have_the_same_value() -> None:
    table = table_of(record(1), record(2))
    assert table.number_of_each("cell_uuid", len) == 36.0
    table.apply({2: record(2, cell_uuid="short")})
    assert np.asarray(table.number_of_each("cell_uuid", len)).tolist() == [36.0, 5.0]
    assert table.by_class("cell_uuid", lambda cell: cell == "short").tolist() == [False, True]


@given(records=record_lists(), spec=specs())
def test_a_copy_takes_instances_without_its_original(records: list[HostRecord], spec: Any) -> None:
    table, copy = table_of(*records), HostTable()
    copy.copy_from(table)
    assert values(copy) == values(table)
    before = values(table), [used(table, name) for name in CLASSES]
    copy.consume(0, spec, "new", resources=dict.fromkeys(CLASSES, 1))
    assert (values(table), [used(table, name) for name in CLASSES]) == before
    assert table.instances_among(["new"]).tolist() == [0] * len(records)
    assert copy.instances_among(["new"]).tolist()[0] == 1


def test_what_filters_note_on_a_host_ends_with_its_request_or_with_a_change() -> None:
    table = table_of(record(1))
    table.host(0).limits["memory_mb"] = 5
    assert table.host(0).limits == {"memory_mb": 5}
    table.begin()
    assert table.host(0).limits == {}
    table.host(0).limits["memory_mb"] = 5
    table.apply({1: record(1)})
    assert table.host(0).limits == {}


def test_a_name_that_is_no_column_is_an_error() -> None:
    with pytest.raises(AttributeError, match="HostTable has no column 'colour'"):
        table_of(record(1)).colour  # noqa: B018 - the read is what is tested


@settings(max_examples=20)
@given(st.integers(1, 40))
def test_values_that_no_host_has_any_more_are_forgotten(times: int) -> None:
    table = table_of(record(1), record(2))
    for number in range(times):
        table.apply({1: record(1, host_ip=f"10.0.0.{number}")})
    assert len(table.class_column("host_ip").values) <= 2 * 2 + 16 + 1
    assert [table.value(row, "host_ip") for row in range(2)] == [f"10.0.0.{times - 1}", None]
