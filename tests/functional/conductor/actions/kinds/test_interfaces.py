"""Interfaces that servers get and lose while they exist: rows first, nothing leaked or doubled, whatever happens to the host."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select

from minova import errors
from minova.db import models
from minova.db.networks import ports
from minova.objects.network.network import MAX_ADDRESSES, AddressRequest, Port
from minova.objects.network.vif import MAX_NICS
from minova.objects.requests.build_extras import RequestedNic
from tests.fakes.interfaces import network_of
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, new_request
from tests.functional.conductor.network_cases import network, port, subnet
from tests.functional.conductor.quota_cases import limit, used


def blue(harness: ConductorHarness) -> str:
    with harness.db.write() as session:
        return network_of(session).uuid


def attach(harness: ConductorHarness, server: str, network_id: str | None = None, **wanted: Any) -> int:
    """Answers the id of the action."""
    interface = {"id": str(uuid.uuid4()), "network_id": network_id or blue(harness), **wanted}
    harness.conductor.start_action(
        new_request(), instance_uuid=server, action="attach_interface", arguments={"interface": interface}
    )
    return harness.action_id(server)


def detach(harness: ConductorHarness, server: str, port_id: str) -> int:
    harness.conductor.start_action(
        new_request(), instance_uuid=server, action="detach_interface", arguments={"port_id": port_id}
    )
    return harness.action_id(server)


def done(harness: ConductorHarness, server: str, action_id: int) -> None:
    report: dict[str, Any] = {"instance_uuid": server, "action_id": action_id, "host": "a"}
    harness.conductor.begin_action(CTX, **report)
    harness.conductor.action_succeeded(CTX, **report, power_state=1)


def failed(harness: ConductorHarness, server: str, action_id: int, *, untouched: bool = True) -> None:
    """`untouched`: the guest has nothing of the interface."""
    report: dict[str, Any] = {"instance_uuid": server, "action_id": action_id, "host": "a"}
    harness.conductor.begin_action(CTX, **report)
    reason = "no slot is free"
    harness.conductor.action_failed(CTX, **report, reason=reason, kind="InterfaceAttachFailed", untouched=untouched)


def attached(harness: ConductorHarness, server: str) -> list[Port]:
    with harness.db.read() as session:
        return ports.of_instance(session, server)


def left(harness: ConductorHarness) -> tuple[int, int, int]:
    """Ports, addresses, and ports that count in the project's usage."""
    return harness.count(models.Port), harness.count(models.IpAllocation), used(harness).get("ports", 0)


def test_a_server_gets_interfaces_in_their_order_and_loses_them(harness: ConductorHarness) -> None:
    server = harness.active()
    for number in (1, 2):
        done(harness, server, attach(harness, server, tag=f"nic{number}"))
    first, second = attached(harness, server)
    assert [each_port.fixed_ips[0].ip_address for each_port in (first, second)] == ["10.99.0.2", "10.99.0.3"]
    assert [(each_port.tag, each_port.device_id, each_port.device_owner) for each_port in (first, second)] == [
        ("nic1", server, "compute:nova"),
        ("nic2", server, "compute:nova"),
    ]
    assert left(harness) == (2, 2, 2)
    action = detach(harness, server, first.id)
    assert len(attached(harness, server)) == 2, "the guest has it still"
    done(harness, server, action)
    assert [each_port.id for each_port in attached(harness, server)] == [second.id]
    assert left(harness) == (1, 1, 1)
    assert [name for name, result in harness.actions(server) if result == "Success"][1:] == [
        "attach_interface",
        "attach_interface",
        "detach_interface",
    ]
    assert harness.task(server) is None
    # The number of the next one is behind all that are there.
    done(harness, server, attach(harness, server))
    assert attached(harness, server)[0].id == second.id


def test_an_interface_that_cannot_be_attached_leaves_nothing(harness: ConductorHarness) -> None:
    server = harness.active()
    failed(harness, server, attach(harness, server))
    assert (attached(harness, server), left(harness)) == ([], (0, 0, 0))
    assert harness.actions(server)[-1] == ("attach_interface", "Error")
    assert "no slot is free" in harness.fault(server)
    # A port that was there is as before.
    kept = port(harness, network_object(harness))
    failed(harness, server, attach(harness, server, kept.network_id, port_id=kept.id, tag="t"))
    with harness.db.read() as session:
        again = ports.find(session, kept.id)
    assert again is not None
    assert (again.device_id, again.device_owner, again.tag, again.fixed_ips) == ("", "", None, kept.fixed_ips)


def network_object(harness: ConductorHarness) -> Any:
    new_network = network(harness)
    subnet(harness, new_network, "10.1.0.0/24")
    return new_network


def test_a_port_that_was_there_is_free_again_after_it_is_detached(harness: ConductorHarness) -> None:
    server = harness.active()
    own = port(harness, network_object(harness))
    done(harness, server, attach(harness, server, own.network_id, port_id=own.id))
    with pytest.raises(errors.PortInUse):
        attach(harness, server, own.network_id, port_id=own.id)
    done(harness, server, detach(harness, server, own.id))
    with harness.db.read() as session:
        again = ports.find(session, own.id)
        assert ports.server_of(session, own.id) is None
    assert again is not None
    assert (again.device_id, again.fixed_ips) == ("", own.fixed_ips)


@pytest.mark.parametrize("kind", ["attach_interface", "detach_interface"])
def test_late_and_doubled_reports_change_nothing(harness: ConductorHarness, kind: str) -> None:
    server = harness.active()
    action = harness.act(server, kind)
    done(harness, server, action)
    before = [each_port.id for each_port in attached(harness, server)]
    report: dict[str, Any] = {"instance_uuid": server, "action_id": action, "host": "a"}
    harness.conductor.action_succeeded(CTX, **report, power_state=1)
    harness.conductor.action_failed(CTX, **report, reason="late")
    with pytest.raises(errors.StaleAttempt):
        harness.conductor.begin_action(CTX, **report)
    assert [each_port.id for each_port in attached(harness, server)] == before


def test_an_interface_that_the_guest_may_have_stays_the_servers(harness: ConductorHarness) -> None:
    """Its host could neither attach it nor learn whether it did: no other server may have its addresses."""
    server = harness.active()
    failed(harness, server, attach(harness, server), untouched=False)
    assert harness.actions(server)[-1] == ("attach_interface", "Error")
    (kept,) = attached(harness, server)
    assert left(harness) == (1, 1, 1)
    # What was begun can be ended.
    done(harness, server, detach(harness, server, kept.id))
    assert left(harness) == (0, 0, 0)


@pytest.mark.parametrize("kind", ["attach_interface", "detach_interface"])
def test_a_host_that_is_forced_down_leaves_the_server_its_port(harness: ConductorHarness, kind: str) -> None:
    """The guest may have the interface: no other server may have its addresses."""
    server = harness.active()
    harness.act(server, kind)
    before = [each_port.id for each_port in attached(harness, server)]
    harness.force_down("a")
    assert harness.actions(server)[-1] == (kind, "Error")
    harness.force_down("a", forced_down=False)
    assert ([each_port.id for each_port in attached(harness, server)], harness.task(server)) == (before, None)
    # What was begun can be ended.
    done(harness, server, detach(harness, server, before[0]))
    assert attached(harness, server) == []


def sent(harness: ConductorHarness, server: str) -> list[tuple[str, int]]:
    """What its host was asked for, of which action."""
    return [(kind, action) for kind, uuid, action in harness.hosts["a"].actions if uuid == server]


def test_host_of_an_attachment_reads_its_interfaces_anew(harness: ConductorHarness) -> None:
    """What it got with the action may have been read before other servers joined the groups that it lets in."""
    server = harness.active()
    harness.settle()
    before = harness.hosts["a"].refreshed
    done(harness, server, attach(harness, server))
    harness.settle()
    assert harness.hosts["a"].refreshed == before + 1


def test_detachments_that_are_asked_for_together_follow_each_other(harness: ConductorHarness) -> None:
    """None of them is refused, as in Nova, and none is forgotten when the one before fails."""
    server = harness.active()
    for _ in range(3):
        done(harness, server, attach(harness, server))
    first, second, third = [each_port.id for each_port in attached(harness, server)]
    last = attach(harness, server)
    numbers = [detach(harness, server, port_id) for port_id in (first, second, third)]
    assert detach(harness, server, third) == numbers[-1], "it is asked for already"
    assert sent(harness, server)[-1] == ("attach_interface", last)
    assert [name for name, result in harness.actions(server) if result is None] == ["attach_interface"] + 3 * [
        "detach_interface"
    ]
    failed(harness, server, last)
    for report, number, remaining in zip((done, failed, done), numbers, (2, 2, 1), strict=True):
        harness.settle()
        assert sent(harness, server)[-1] == ("detach_interface", number)
        report(harness, server, number)
        assert len(attached(harness, server)) == remaining
    assert harness.task(server) is None
    assert ([each_port.id for each_port in attached(harness, server)], left(harness)) == ([second], (1, 1, 1))
    assert harness.actions(server)[-4:] == [
        ("attach_interface", "Error"),
        ("detach_interface", "Success"),
        ("detach_interface", "Error"),
        ("detach_interface", "Success"),
    ]


@pytest.mark.parametrize("ended_by", ["reboot_hard", "reset_state", "delete"])
def test_detachments_that_wait_end_with_what_they_wait_for(harness: ConductorHarness, ended_by: str) -> None:
    server = harness.active()
    done(harness, server, attach(harness, server))
    (own_port,) = attached(harness, server)
    attach(harness, server)
    detach(harness, server, own_port.id)
    if ended_by == "delete":
        harness.delete(server)
        harness.conductor.instance_deleted(CTX, instance_uuid=server, host="a")
        assert left(harness) == (0, 0, 0)
    else:
        if ended_by == "reset_state":
            harness.conductor.reset_server_state(CTX, instance_uuid=server, vm_state="active")
        else:
            harness.acted(server, "reboot_hard")
        assert len(attached(harness, server)) == 2
    assert ("detach_interface", "Error") in harness.actions(server)
    assert all(result is not None for _, result in harness.actions(server))


def test_a_detachment_that_waits_for_the_attachment_of_its_port(harness: ConductorHarness) -> None:
    """The host refuses the attachment: there is nothing left to detach."""
    server = harness.active()
    action = attach(harness, server)
    (own_port,) = attached(harness, server)
    detach(harness, server, own_port.id)
    failed(harness, server, action)
    assert (attached(harness, server), harness.task(server), left(harness)) == ([], None, (0, 0, 0))
    assert harness.actions(server)[-2:] == [("attach_interface", "Error"), ("detach_interface", "Success")]


@pytest.mark.parametrize("succeeds", [True, False])
def test_an_attachment_that_a_hard_reboot_ends_is_as_good_as_the_reboot(
    harness: ConductorHarness, succeeds: bool
) -> None:
    server = harness.active()
    attach(harness, server)
    for _ in range(2):
        action = harness.act(server, "reboot_hard")
        assert ("attach_interface", None) in harness.actions(server), "whether the guest gets it is not known yet"
    report: dict[str, Any] = {"instance_uuid": server, "action_id": action, "host": "a"}
    harness.conductor.begin_action(CTX, **report)
    if succeeds:
        harness.conductor.action_succeeded(CTX, **report, power_state=1)
    else:
        harness.conductor.action_failed(CTX, **report, reason="bridge br0 is not there")
    assert ("attach_interface", "Success" if succeeds else "Error") in harness.actions(server)
    assert all(result is not None for _, result in harness.actions(server))


def test_an_attachment_that_a_hard_reboot_carries_ends_with_a_reset_of_the_state(harness: ConductorHarness) -> None:
    server = harness.active()
    attach(harness, server)
    harness.act(server, "reboot_hard")
    harness.conductor.reset_server_state(CTX, instance_uuid=server, vm_state="error")
    assert harness.actions(server)[1:] == [
        ("attach_interface", "Error"),
        ("reboot", "Error"),
        ("reset_state", "Success"),
    ]


@pytest.mark.parametrize("by", ["attachment", "creation"])
def test_a_port_of_another_device_is_in_use(harness: ConductorHarness, by: str) -> None:
    new_network = network_object(harness)
    router = port(harness, new_network, device_id="a router", device_owner="network:router_interface")
    requested_nic = RequestedNic(network_id=new_network.id, port_id=router.id)
    attempt: Callable[[], object] = {
        "attachment": lambda: attach(harness, harness.active(), new_network.id, port_id=router.id),
        "creation": lambda: harness.create(requested_networks=(requested_nic,)),
    }[by]
    with pytest.raises(errors.PortInUse):
        attempt()
    with harness.db.read() as session:
        kept = ports.find(session, router.id)
    assert kept is not None
    assert (kept.device_id, kept.device_owner) == ("a router", "network:router_interface")


def test_a_port_gets_no_more_addresses_than_one_may_have(harness: ConductorHarness) -> None:
    """From the first subnet that has one, for any number of requests at a time."""
    server = harness.active()
    new_network = network(harness)
    subnet(harness, new_network, "10.4.0.0/30")
    subnet(harness, new_network, "10.5.0.0/24")
    done(harness, server, attach(harness, server, new_network.id))

    def more() -> list[str]:
        (own_port,) = attached(harness, server)
        requested_addresses = [
            AddressRequest(subnet_id=each.subnet_id, ip_address=each.ip_address) for each in own_port.fixed_ips
        ]
        answer = harness.conductor.update_port(CTX, port=own_port, fixed_ips=(*requested_addresses, AddressRequest()))
        return [each.ip_address for each in answer.fixed_ips]

    assert more() == ["10.4.0.2", "10.5.0.2"]
    for _ in range(3):
        most = more()
    assert len(most) == MAX_ADDRESSES
    with pytest.raises(errors.BadRequest, match="a port may have 5 addresses"):
        more()


def test_other_actions_wait_but_a_hard_reboot_and_a_deletion(harness: ConductorHarness) -> None:
    server = harness.active()
    attach(harness, server)
    for kind in ("stop", "pause", "attach_interface", "snapshot", "trigger_crash_dump"):
        with pytest.raises(errors.Conflict, match="another task is in progress"):
            harness.act(server, kind)
    (kept,) = attached(harness, server)
    # The domain is defined anew, with the interface.
    harness.acted(server, "reboot_hard")
    assert ("attach_interface", "Success") in harness.actions(server)
    assert all(result is not None for _, result in harness.actions(server))
    action = detach(harness, server, kept.id)
    harness.acted(server, "reboot_hard")
    assert ("detach_interface", "Error") in harness.actions(server)
    with pytest.raises(errors.StaleAttempt):
        done(harness, server, action)
    assert [each_port.id for each_port in attached(harness, server)] == [kept.id]
    detach(harness, server, kept.id)
    harness.delete(server)
    harness.conductor.instance_deleted(CTX, instance_uuid=server, host="a")
    assert left(harness) == (0, 0, 0)


def test_refusals_come_before_anything_is_written(harness: ConductorHarness) -> None:
    server, other = harness.active(), harness.active()
    done(harness, other, attach(harness, other))
    (foreign,) = attached(harness, other)
    with pytest.raises(errors.PortNotFound):
        detach(harness, server, foreign.id)
    with pytest.raises(errors.PortNotFound):
        attach(harness, server, port_id=str(uuid.uuid4()))
    with pytest.raises(errors.NetworkNotFound):
        attach(harness, server, str(uuid.uuid4()))
    with pytest.raises(errors.PortInUse):
        attach(harness, server, port_id=foreign.id)
    with pytest.raises(errors.IpAddressAlreadyAllocated):
        attach(harness, server, ip_address=foreign.fixed_ips[0].ip_address)
    with pytest.raises(errors.InvalidIpForNetwork):
        attach(harness, server, ip_address="192.0.2.1")
    with pytest.raises(errors.BadRequest):
        harness.conductor.start_action(
            new_request(), instance_uuid=server, action="attach_interface", arguments={"interface": 5}
        )
    limit(harness, ports=1)
    with pytest.raises(errors.Forbidden):
        attach(harness, server)
    assert (attached(harness, server), harness.task(server), left(harness)) == ([], None, (1, 1, 1))
    assert harness.actions(server) == [("create", "Success")]


def test_a_network_that_the_host_is_not_on_is_refused(harness: ConductorHarness) -> None:
    """What the host has is known: nothing is tried there."""
    server = harness.active()
    harness.audit("a", bridges={"dc1.100": "br-100"})
    for segment in ("dc1", "dc1.200"):
        with pytest.raises(errors.BadRequest, match="its host is not on that network"):
            attach(harness, server, segment=segment)
    assert (attached(harness, server), harness.task(server)) == ([], None)
    done(harness, server, attach(harness, server, segment="dc1.100"))
    assert len(attached(harness, server)) == 1


def test_a_server_has_so_many_interfaces_and_no_more(harness: ConductorHarness) -> None:
    server = harness.active()
    for _ in range(MAX_NICS):
        done(harness, server, attach(harness, server))
    with pytest.raises(errors.Forbidden, match="Maximum number of ports"):
        attach(harness, server)


def test_no_address_is_left(harness: ConductorHarness) -> None:
    server = harness.active()
    new_network = network(harness)
    subnet(harness, new_network, "10.3.0.0/30")
    done(harness, server, attach(harness, server, new_network.id))
    with pytest.raises(errors.IpAddressGenerationFailure):
        attach(harness, server, new_network.id)
    assert left(harness) == (1, 1, 1)


def test_a_locked_server_keeps_its_interfaces(harness: ConductorHarness) -> None:
    server = harness.active()
    action = harness.act(server, "detach_interface")
    failed(harness, server, action)
    with harness.db.write() as session:
        row = session.scalars(select(models.Instance).where(models.Instance.uuid == server)).one()
        row.locked_by = "owner"
    with pytest.raises(errors.Conflict, match="locked"):
        attach(harness, server)
    with pytest.raises(errors.Conflict, match="locked"):
        detach(harness, server, attached(harness, server)[0].id)
    # As in Neutron: a port may be deleted.
    (own,) = attached(harness, server)
    harness.conductor.delete_port(new_request(), port_id=own.id)
    done(harness, server, harness.action_id(server))
    assert attached(harness, server) == []


def test_a_port_of_a_server_that_is_deleted_is_detached_first_and_gone_then(harness: ConductorHarness) -> None:
    server = harness.active()
    own = port(harness, network_object(harness))
    done(harness, server, attach(harness, server, own.network_id, port_id=own.id))
    harness.conductor.delete_port(new_request(), port_id=own.id)
    # Asked for again, it is the same deletion.
    harness.conductor.delete_port(new_request(), port_id=own.id)
    assert (attached(harness, server), left(harness)) == ([], (1, 1, 1)), "the guest has it still"
    done(harness, server, harness.action_id(server))
    assert left(harness) == (0, 0, 0)
    with pytest.raises(errors.PortNotFound):
        harness.conductor.delete_port(new_request(), port_id=own.id)


@pytest.mark.parametrize("ended_by", ["host", "reboot_hard", "stop and start", "server", "shelve"])
def test_a_port_that_is_deleted_never_comes_back(harness: ConductorHarness, ended_by: str) -> None:
    """Its guest has not let go of it. It belongs to no server from then on, and goes as soon as it is known that no guest has it."""
    server = harness.active()
    own = port(harness, network_object(harness))
    done(harness, server, attach(harness, server, own.network_id, port_id=own.id))
    harness.conductor.delete_port(new_request(), port_id=own.id)
    failed(harness, server, harness.action_id(server), untouched=False)
    assert (attached(harness, server), left(harness)) == ([], (1, 1, 1))
    with harness.db.read() as session:
        assert (ports.find(session, own.id), ports.pending_delete_of(session, server)) == (None, [own.id])
    with pytest.raises(errors.PortNotFound):
        harness.conductor.update_port(CTX, port=own, fixed_ips=None)
    ((vif,),) = harness.conductor.interfaces_of_host(CTX, host="a").values()
    assert (vif.port_id, vif.pending_delete) == (own.id, True)
    if ended_by == "host":
        interface = {"instance_uuid": server, "mac_address": own.mac_address}
        harness.conductor.interface_detached(CTX, **interface, host="b")
        assert left(harness) == (1, 1, 1)
        for _ in range(2):
            harness.conductor.interface_detached(CTX, **interface, host="a")
    elif ended_by == "server":
        harness.delete(server)
        harness.conductor.instance_deleted(CTX, instance_uuid=server, host="a")
    elif ended_by == "shelve":
        harness.acted(server, "shelve")
        harness.acted(server, "shelve_offload")
    else:
        for kind in ("stop", "start") if ended_by == "stop and start" else (ended_by,):
            assert left(harness) == (1, 1, 1)
            harness.acted(server, kind)
    assert left(harness) == (0, 0, 0)


def test_a_hard_reboot_ends_the_deletion_of_a_port_well(harness: ConductorHarness) -> None:
    server = harness.active()
    own = port(harness, network_object(harness))
    done(harness, server, attach(harness, server, own.network_id, port_id=own.id))
    harness.conductor.delete_port(new_request(), port_id=own.id)
    harness.acted(server, "reboot_hard")
    assert (attached(harness, server), left(harness)) == ([], (0, 0, 0))


def test_a_port_that_is_deleted_while_another_one_is_attached_goes_after_it(harness: ConductorHarness) -> None:
    server = harness.active()
    own = port(harness, network_object(harness))
    done(harness, server, attach(harness, server, own.network_id, port_id=own.id))
    action = attach(harness, server)
    harness.conductor.delete_port(new_request(), port_id=own.id)
    (other,) = attached(harness, server)
    done(harness, server, action)
    harness.settle()
    done(harness, server, harness.action_id(server))
    assert ([each_port.id for each_port in attached(harness, server)], left(harness)) == ([other.id], (1, 1, 1))


def test_a_detachment_in_progress_becomes_the_deletion_that_is_asked_for(harness: ConductorHarness) -> None:
    server = harness.active()
    own = port(harness, network_object(harness))
    done(harness, server, attach(harness, server, own.network_id, port_id=own.id))
    action = detach(harness, server, own.id)
    harness.conductor.delete_port(new_request(), port_id=own.id)
    done(harness, server, action)
    assert left(harness) == (0, 0, 0)


def test_ports_of_servers_in_other_states(harness: ConductorHarness) -> None:
    server = harness.active()
    done(harness, server, attach(harness, server))
    (own,) = attached(harness, server)
    harness.acted(server, "suspend")
    with pytest.raises(errors.PortInUse, match="suspended"):
        harness.conductor.delete_port(new_request(), port_id=own.id)
    harness.acted(server, "resume")
    harness.acted(server, "shelve")
    harness.acted(server, "shelve_offload")
    # No host has it.
    harness.conductor.delete_port(new_request(), port_id=own.id)
    assert left(harness) == (0, 0, 0)


def test_another_conductor_continues(harness: ConductorHarness) -> None:
    server = harness.active()
    action = attach(harness, server)
    harness.kill("one")
    count_before = len(harness.hosts["a"].actions)
    harness.now += 31
    second = harness.start("two")
    harness.settle()
    assert harness.hosts["a"].actions[count_before:], "its host is asked again"
    assert {sent_action for _, _, sent_action in harness.hosts["a"].actions[count_before:]} == {action}
    report: dict[str, Any] = {"instance_uuid": server, "action_id": action, "host": "a"}
    second.action_succeeded(CTX, **report, power_state=1)
    assert len(attached(harness, server)) == 1
