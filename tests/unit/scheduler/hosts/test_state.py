"""One host of the table, under Nova's names."""

import copy

import pytest

from minova.scheduler.hosts.state import InstanceFacts
from tests.unit.scheduler.hosts import record, spec_of, table_of

HOST = {"memory_mb": 8192, "memory_mb_used": 512, "local_gb": 500, "local_gb_used": 20, "vcpus": 16}


def test_novas_names_are_those_of_the_columns() -> None:
    table = table_of(record(1, **HOST), record(2))
    host = table.host(0)
    assert (host.free_ram_mb, host.total_usable_ram_mb) == (7680, 8192)
    assert (host.total_usable_disk_gb, host.disk_mb_used, host.vcpus_total) == (500, 20480, 16)
    assert table.free_ram_mb.tolist() == [7680.0, 32768.0]
    assert table.disk_mb_used.tolist() == [20480.0, 0.0]
    assert (host.nodename, host.hypervisor_hostname, host.host) == ("node1", "node1", "host1")
    assert repr(host) == "(host1, node1) ram: 7680MB disk: 491520MB io_ops: 0 instances: 0"


def test_instances_are_those_of_the_record_with_their_images_and_those_that_were_consumed() -> None:
    image = (("os_type", "linux"),)
    table = table_of(record(1, instances=("a", "b"), instance_images=((), image)), record(2, instances=("c",)))
    table.consume(0, spec_of(), "new")
    assert table.host(0).instances == {
        "a": InstanceFacts("a"),
        "b": InstanceFacts("b", image),
        "new": InstanceFacts("new"),
    }
    assert table.host(1).instances == {"c": InstanceFacts("c")}


def test_a_number_of_a_class_is_that_of_the_hosts_value() -> None:
    table = table_of(record(1, cell_uuid="cell1"), record(2, cell_uuid="long-cell"))
    assert [table.host(row).number_of_each("cell_uuid", len) for row in range(2)] == [5, 9]


def test_a_host_can_be_copied_and_has_no_other_names() -> None:
    host = table_of(record(1)).host(0)
    assert copy.copy(host).host == "host1"
    with pytest.raises(AttributeError, match="colour"):
        host.colour  # noqa: B018 - the read is what is tested
