"""`minova-manage host rename`: which rows follow the name, and when it is refused."""

from datetime import UTC, datetime
from uuid import UUID

import pytest
from sqlalchemy import select, update

from minova import errors
from minova.conductor.hosts import rename as host_rename
from minova.conductor.hosts.rename import node_names
from minova.db import models
from minova.db.networks import held_ports
from minova.db.recovery import cloud, reports
from minova.objects.network.vif import Vif
from minova.objects.unexpected.guest_record import GuestMark
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.conductor.network_cases import network


def rename(harness: ConductorHarness, old: str, new: str, node: str | None = None) -> None:
    harness.db.run(lambda session: host_rename.rename(session, old, new, node, down_time=60.0, now=harness.db.now()))


def silence_others(harness: ConductorHarness, *living: str) -> None:
    """Long enough for hosts to count as down, but for those living."""
    for _ in range(8):
        harness.now += 9.0
        for host in living:
            harness.conductor.heartbeat(CTX, host=host, binary="minova-compute")
        harness.conductor.collaborators.services.flush()


@pytest.mark.parametrize(
    ("names", "given", "expected"),
    [
        (["old"], None, {"old": "new"}),
        (["old.example.com"], None, {"old.example.com": "new.example.com"}),
        (["rack-7"], None, {"rack-7": "rack-7"}),
        (["oldest"], None, {"oldest": "oldest"}),
        (["old"], "n.example.com", {"old": "n.example.com"}),
        (["old", "n2"], None, {"old": "new", "n2": "n2"}),
    ],
)
def test_nodes_named_as_their_host_follow_it(names: list[str], given: str | None, expected: dict[str, str]) -> None:
    assert node_names("old", "new", names, given) == expected


def test_name_for_one_of_several_nodes_is_refused() -> None:
    with pytest.raises(errors.BadRequest, match="2 nodes"):
        node_names("old", "new", ["n1", "n2"], "n3")


def test_every_row_that_names_the_host_follows(harness: ConductorHarness) -> None:
    aggregate = harness.conductor.create_aggregate(CTX, name="rack", metadata={})
    harness.conductor.add_host_to_aggregate(CTX, aggregate_id=aggregate.id, host="a")
    running, (waiting,) = harness.active("a"), harness.create()
    changes = harness.count(models.HostChange)
    silence_others(harness, "b", "c")
    rename(harness, "a", "z", "z-node")
    assert (harness.instance(running).host, harness.instance(running).node) == ("z", "z-node")
    task = harness.task(waiting)
    assert task is not None
    assert (task.host, task.node) == ("z", "z-node")
    with harness.db.read() as session:
        assert session.scalars(select(models.AggregateHost.host)).all() == ["z"]
        service = session.scalars(select(models.Service).where(models.Service.host == "z")).one()
        assert service.former_hosts == ["a"]
        assert set(session.scalars(select(models.ResourceProvider.name))) == {"z-node", "b-node", "c-node"}
        assert set(session.scalars(select(models.ComputeNode.host))) == {"z", "b", "c"}
    assert harness.count(models.HostChange) > changes
    assert harness.allocated() == {running: "a", waiting: "a"}  # by provider, which is the same
    # Another machine may take the name.
    harness.add_host("a")


def test_bug_hosts_of_a_deletion_and_unexpected_guests_kept_the_former_name(harness: ConductorHarness) -> None:
    """What a move had left there was nobody's debt; and safe mode did not end, because nothing reported the guest any more."""
    harness.scheduler.order = ["b"]
    uuid, at = harness.active("b"), datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)
    harness.conductor.delete_server(CTX, instance_uuid=uuid)
    removal = {"asks": 1, "others": [["a", "a-node"], ["c", None]], "owing": ["a", "c"]}
    with harness.db.write() as session:
        session.execute(update(models.Task).values(payload=removal))
        mark = GuestMark(uuid="g")
        session.add(models.UnexpectedGuest(host="a", uuid="g", reason="no_row", mark=mark, seen_at=at))
    silence_others(harness, "b", "c")
    rename(harness, "a", "z", "z-node")
    task = harness.task(uuid)
    assert task is not None
    assert task.payload == {"asks": 1, "others": [["z", "z-node"], ["c", None]], "owing": ["z", "c"]}
    with harness.db.read() as session:
        assert session.scalars(select(models.UnexpectedGuest.host)).all() == ["z"]


def test_bug_decisions_about_a_host_and_its_ports_kept_the_former_name(harness: ConductorHarness) -> None:
    """A host that had not reported when an operator ended safe mode counted as known under its new name, though its guests had never been
    compared with the database.
    """
    at, network_uuid = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None), network(harness).id
    with harness.db.write() as session:
        values = {"history_since": 1.0, "history_forced": True, "history_without": ["a", "c"]}
        session.execute(update(models.Cloud).values(**values))
        # An earlier host was named z.
        for number, (host, guest) in enumerate((("a", "g"), ("z", "g"), ("z", "other"), ("b", "other"))):
            session.add(models.PurgedInstance(uuid=str(UUID(int=number)), purged_at=at, host=host))
            mark, remove_at = GuestMark(uuid=guest), at if host == "z" else None
            session.add(
                models.UnexpectedGuest(
                    host=host, uuid=guest, reason="no_row", mark=mark, seen_at=at, remove_at=remove_at
                )
            )
        for name in ("a", "b", "z"):
            session.add(models.WitnessReport(kind="host", name=name, reported_at=2.0))
        vif = Vif(port_id=str(UUID(int=2)), network_id=network_uuid, mac_address="fa:16:3e:00:00:01")
        assert held_ports.hold(session, "g", [vif], at, "a") == []
    silence_others(harness, "b", "c")
    rename(harness, "a", "z", "z-node")
    with harness.db.read() as session:
        assert session.scalars(select(models.Cloud.history_without)).one() == ["c", "z"]
        assert session.scalars(select(models.PurgedInstance.uuid)).all() == [str(UUID(int=number)) for number in (0, 3)]
        assert set(session.scalars(select(models.PurgedInstance.host))) == {"z", "b"}
        guests = session.execute(select(models.UnexpectedGuest.host, models.UnexpectedGuest.uuid))
        assert {tuple(guest) for guest in guests} == {("z", "g"), ("b", "other")}
        assert session.scalars(select(models.WitnessReport.name)).all() == ["b"]
        assert session.scalars(select(models.Port.host)).all() == ["z"]
    with harness.db.write() as session:
        # It reports a guest that the database does not know.
        session.add(models.WitnessReport(kind="host", name="z", reported_at=3.0))
        row = cloud.record(session, harness.db.now())
        assert row is not None
        assert not reports.is_known(session, row, cloud.HOST, "z")
        assert reports.is_known(session, row, cloud.HOST, "b")


def test_host_that_is_up_is_refused(harness: ConductorHarness) -> None:
    with pytest.raises(errors.Conflict, match="heard 0 s ago"):
        rename(harness, "a", "z")


def test_names_that_are_taken_are_refused(harness: ConductorHarness) -> None:
    silence_others(harness, "b", "c")
    with pytest.raises(errors.Conflict, match="There is a host b already"):
        rename(harness, "a", "b")
    with pytest.raises(errors.Conflict, match="named b-node"):
        rename(harness, "a", "z", "b-node")


def test_unknown_host_is_refused(harness: ConductorHarness) -> None:
    with pytest.raises(errors.NotFound, match="nowhere"):
        rename(harness, "nowhere", "z")
