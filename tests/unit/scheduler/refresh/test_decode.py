"""What computes report as text: read once, whole or not at all."""

import json
from typing import Any

import msgspec
import pytest

from minova.objects.hosts.numa import NUMATopology
from minova.scheduler.hosts.interning import Interner
from minova.scheduler.hosts.record import ImageSupport, Metric
from minova.scheduler.refresh.decode import NodeValues
from tests.unit.hardware import guests


@pytest.fixture
def values() -> NodeValues:
    return NodeValues(Interner())


@pytest.mark.parametrize("text", [None, "null"])
def test_what_a_node_does_not_report_is_nothing(values: NodeValues, text: str | None) -> None:
    assert values.numa_topology(text) is None
    assert values.pci_pools(text) == ()
    assert values.metrics(text) == ()
    assert values.stats(text) == {}
    assert values.image_support("QEMU", 7, text) == ImageSupport(hypervisor_type="QEMU", hypervisor_version=7)
    assert (values.cpu_info(None), values.cpu_info("")) == ("", "")
    assert (values.host_ip(None), values.host_ip("")) == (None, "")


def test_what_it_reports_is_read(values: NodeValues) -> None:
    topology = guests.host(guests.cell(0, pinned_cpus=guests.cpus(1), mempages=guests.pages(small=5)), guests.cell(1))
    assert values.numa_topology(msgspec.json.encode(topology).decode()) == topology
    pools = (guests.pool(2, tags=(("a", "b"),)), guests.pool(1, node=1))
    assert values.pci_pools(msgspec.json.encode(pools).decode()) == pools
    assert values.metrics('[{"name": "cpu.percent", "value": 0.5}]') == (Metric(name="cpu.percent", value=0.5),)
    assert values.image_support("QEMU", 7, '[["x86_64", "kvm", "hvm"]]').supported_instances == (
        ("x86_64", "kvm", "hvm"),
    )
    assert values.cpu_info('{"arch": "x86_64"}') == '{"arch": "x86_64"}'
    assert values.host_ip("10.0.0.1") == "10.0.0.1"


def test_stats_may_have_any_values_and_share_their_texts(values: NodeValues) -> None:
    first = values.stats('{"io_workload": "busy with it", "list": [1], "number": 5}')
    other = values.stats('{"io_workload": "busy with it"}')
    assert first == {"io_workload": "busy with it", "list": [1], "number": 5}
    assert other["io_workload"] is first["io_workload"]


def test_equal_parts_are_one_object(values: NodeValues) -> None:
    one = values.numa_topology(msgspec.json.encode(guests.host(guests.cell(0))).decode())
    two = values.numa_topology(msgspec.json.encode(guests.host(guests.cell(0), guests.cell(1))).decode())
    assert isinstance(one, NUMATopology)
    assert isinstance(two, NUMATopology)
    assert one.cells[0] is two.cells[0]
    assert values.image_support("QEMU", 7, None) is values.image_support("QEMU", 7, "null")


WRONG: list[tuple[str, Any]] = [
    ("numa_topology", '{"cells": [{"id": -1}]}'),
    ("pci_pools", '[{"vendor_id": "8086"}]'),
    ("metrics", '[{"name": "a", "value": 1e400}]'),
    ("metrics", "["),
    ("stats", "["),
    ("cpu_info", '{"arch": 5}'),
    ("cpu_info", "text"),
    ("host_ip", "10.0.0"),
]


@pytest.mark.parametrize(("name", "text"), WRONG)
def test_what_cannot_be_is_an_error(values: NodeValues, name: str, text: str) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match=r".+"):
            getattr(values, name)(text)


def test_a_cpu_with_values_that_no_message_has_is_an_error(values: NodeValues) -> None:
    with pytest.raises(ValueError, match="cpu_info: "):
        values.cpu_info(json.dumps({"arch": "x86_64", "features": ["a\0b"]}))
