"""A host in the shapes of Nova's objects, for filters that were written for Nova."""

from minova.objects.hosts.pci import InstancePCIRequest
from minova.scheduler.hosts.record import AggregateFacts, ImageSupport, Metric, ServiceFacts
from tests.unit.hardware.guests import pool
from tests.unit.scheduler.hosts import record, table_of, zone

GPU = InstancePCIRequest(count=2, spec=((("vendor_id", "8086"),),))


def test_values_have_novas_shapes() -> None:
    support = ImageSupport(supported_instances=(("x86_64", "kvm", "hvm"),))
    table = table_of(
        record(
            1,
            service=ServiceFacts(disabled=True),
            service_id=9,
            image_support=support,
            aggregates=(zone("z1"), AggregateFacts(2, "b")),
            metrics=(Metric(name="cpu.percent", value=0.5), Metric(name="other", value=3.9)),
        )
    )
    host = table.host(0).nova()
    assert [(each.id, each.name, each.availability_zone) for each in host.aggregates] == [
        (1, "a", "z1"),
        (2, "b", None),
    ]
    assert host.service["disabled"] is True
    assert (host.service["host"], host.service["id"]) == ("host1", 9)
    assert host.supported_instances == [["x86_64", "kvm", "hvm"]]
    assert [metric.value for metric in host.metrics] == [50, 3]
    assert host.nova() is host


def test_limits_can_be_written_and_replaced() -> None:
    host = table_of(record(1)).host(0).nova()
    host.limits["a"] = 1
    assert host.limits == {"a": 1}
    host.limits = {"b": 2}
    assert host.limits == {"b": 2}


def test_devices_support_requests_as_far_as_they_go() -> None:
    hosts = table_of(record(1, pci_pools=(pool(2),)), record(2, pci_pools=(pool(1),)))
    assert [hosts.host(row).nova().pci_stats.support_requests([GPU]) for row in range(2)] == [True, False]
    assert hosts.host(1).nova().pci_stats.support_requests([])
