"""The nodes of a host, and their settings."""

import logging

import msgspec
import pytest

from minova import errors
from minova.compute.accounting.audit import NodeSettings
from minova.compute.conductor_retry import ConductorRetry
from minova.compute.tracker.nodes import Nodes, settings_from
from minova.objects.requests.request_spec import HostLimits
from minova.objects.servers.states import VmState
from tests.fakes.computes import CTX, FLAVOR, HOST
from tests.fakes.conductor import FakeConductor
from tests.fakes.hypervisor import Hypervisor
from tests.functional.scheduler.cloud import conf_of


def settings_with(memory_mb: int) -> NodeSettings:
    settings = settings_from(conf_of(), HOST)
    return msgspec.structs.replace(settings, reserved=msgspec.structs.replace(settings.reserved, memory_mb=memory_mb))


def nodes_of(conductor: FakeConductor, *names: str) -> Nodes:
    retry = ConductorRetry(lambda seconds: False)
    return Nodes(settings_from(conf_of(), HOST), Hypervisor(*names), conductor, repeat=retry)  # type: ignore[arg-type]


@pytest.mark.parametrize("names", [("one",), ("one", "two")])
def test_the_only_node_of_a_host_has_its_identity(names: tuple[str, ...]) -> None:
    conductor = FakeConductor()
    nodes = nodes_of(conductor, *names)
    nodes.registered("5f705771-3aa9-4f4c-8660-0d9522ffdbea", 1)
    for name in names:
        nodes.tracker(name).update_available_resource(CTX)
    has_identity = [row.uuid == "5f705771-3aa9-4f4c-8660-0d9522ffdbea" for row in conductor.nodes.values()]
    assert has_identity == [len(names) == 1] * len(names)


def test_more_than_a_node_has_cannot_be_reserved_and_the_settings_stay() -> None:
    conductor = FakeConductor()
    nodes = nodes_of(conductor, "one")
    nodes.tracker("one").update_available_resource(CTX)
    before = conductor.nodes[HOST, "one"].memory_mb_used
    too_much = settings_with(memory_mb=1_000_000)
    for refused in (nodes.require_capacity, nodes.reconfigure):
        with pytest.raises(errors.InvalidConfiguration):
            refused(too_much)
    nodes.require_capacity()
    nodes.tracker("one").update_available_resource(CTX)
    assert conductor.nodes[HOST, "one"].memory_mb_used == before


def test_new_settings_hold_on_nodes_that_are_tracked_already() -> None:
    conductor = FakeConductor()
    nodes = nodes_of(conductor, "one")
    nodes.tracker("one").update_available_resource(CTX)
    nodes.reconfigure(settings_with(memory_mb=1000))
    nodes.tracker("one").update_available_resource(CTX)
    assert conductor.nodes[HOST, "one"].memory_mb_used == 1000


def test_writes_of_tracked_nodes_get_the_number_of_a_registration_that_comes_later() -> None:
    nodes = nodes_of(FakeConductor(), "one")
    tracker = nodes.tracker("one")
    assert tracker.node_write({}) is None
    tracker.update_available_resource(CTX)
    nodes.registered(None, 7)
    write = tracker.node_write({})
    assert write is not None
    assert write.sent.writer_epoch == 7


def test_rows_of_all_nodes_are_written_whose_usage_changed() -> None:
    conductor = FakeConductor()
    nodes = nodes_of(conductor, "one", "two")
    for name, uuid in (("one", "i"), ("two", "j")):
        tracker = nodes.tracker(name)
        tracker.update_available_resource(CTX)
        message = conductor.commit_build(uuid, HOST, name, FLAVOR)
        claimed = tracker.instance_claim(CTX, message.instance, 1, HostLimits()).instance
        tracker.note(msgspec.structs.replace(claimed, vm_state=VmState.ACTIVE, task_state=None))
    conductor.calls.clear()
    nodes.save(CTX)
    assert conductor.calls == ["save_compute_node"] * 2


def test_nodes_that_vanished_are_deleted_whether_tracked_or_only_in_rows(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="minova.compute")
    conductor = FakeConductor()
    nodes = nodes_of(conductor, "one", "two")
    for name in ("one", "two"):
        nodes.tracker(name).update_available_resource(CTX)
    deleted: list[tuple[str, ...]] = []
    conductor.delete_compute_nodes = lambda ctx, *, host, nodes: deleted.append(nodes)  # type: ignore[method-assign]
    nodes.drop_vanished(CTX, ["two"], ["two", "three"])
    assert deleted == [("one", "three")]
    messages = [record.getMessage() for record in caplog.records if "orphan" in record.getMessage()]
    assert messages == [f"Deleting orphan compute node {name} of host {HOST}" for name in ("one", "three")]
    assert [tracker.nodename for tracker in nodes.trackers()] == ["two"]


def test_settings_that_are_not_given_are_those_of_the_options() -> None:
    configured, plain = settings_from(conf_of(), "h"), NodeSettings(host="h", packing=False)
    assert (configured.host, configured.packing, configured.ratios) == (plain.host, plain.packing, plain.ratios)


def test_reserved_disk_is_rounded_up_to_whole_gb() -> None:
    conf = conf_of()
    for mb, gb in ((0, 0), (1, 1), (1024, 1), (1025, 2)):
        conf.set_override("reserved_host_disk_mb", mb)
        assert settings_from(conf, "h").reserved.disk_gb == gb


def test_running_deleted_instances_are_looked_for_at_an_interval() -> None:
    conf = conf_of()
    for seconds, looks in ((0, False), (1, True), (1800, True)):
        conf.set_override("running_deleted_instance_poll_interval", seconds)
        running_deleted = settings_from(conf, "h").running_deleted
        assert (running_deleted.looks, running_deleted.interval) == (looks, seconds)
