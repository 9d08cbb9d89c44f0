"""The host table follows the database: whatever changed, refreshed is the same as rebuilt."""

import functools
import json
import tempfile
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from sqlalchemy import delete, insert, select, text, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from minova.db import models
from minova.db.engine import Database
from minova.objects.hosts.numa import NUMACell, NUMATopology
from minova.objects.hosts.pci import InstancePCIRequest
from minova.placement import changes
from minova.placement.allocations import claims
from minova.placement.changes import EVERY_NODE
from minova.placement.nodes import inventories
from minova.placement.providers import of_node
from minova.scheduler.hosts.table import HostTable
from minova.scheduler.refresh.host_source import COMPARE_INTERVAL, HostSource
from minova.simulate.bench_cloud import host_records, requests, topology
from tests.functional.placement.cases import claim, claim_of, held
from tests.functional.scheduler.cloud import (
    CTX,
    SEEN,
    add_host,
    add_instance,
    count_rows,
    fill,
    fresh,
    inventories_of,
    named,
    put_host,
    read_anew,
    spec_of,
    uuids,
)
from tests.functional.scheduler.schedulers import manager_of
from tests.unit.scheduler.decide.test_laws import comparable

DOWN_TIME = 60.0


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def source_of(db: Database, clock: Clock | None = None) -> HostSource:
    return HostSource(db, service_down_time=DOWN_TIME, clock=clock or Clock())


def rebuilt(db: Database) -> HostTable:
    return source_of(db).refresh()


def node_ids(session: Session, *hosts: str) -> list[int]:
    return list(session.scalars(select(models.ComputeNode.id).where(models.ComputeNode.host.in_(hosts))))


def hear(db: Database, now: float, *hosts: str) -> None:
    services = select(models.Service.id).where(models.Service.host.in_(hosts)).scalar_subquery()
    statement = update(models.Heartbeat).where(models.Heartbeat.service_id.in_(services)).values(last_seen=now)
    db.run(lambda session: session.execute(statement))


def names(table: HostTable) -> list[str]:
    return [record.host for record in table.records]


PLAIN, PINNED = "r-plain", "r-pinned"
DEVICES = (InstancePCIRequest(count=1, spec=((("vendor_id", "8086"),),)),)


def without_arrays(value: Any) -> Any:
    """As a compute's report stands in the database."""
    return msgspec.json.decode(msgspec.json.encode(value, order="deterministic"))


def add_requests(session: Session) -> None:
    pinned = msgspec.structs.replace(requests(1)["pinned-2"], pci_requests=DEVICES)
    for reservation_id, spec in ((PLAIN, spec_of()), (PINNED, pinned)):
        session.add(models.RequestSpecRow(reservation_id=reservation_id, spec=spec, carried={}, created_at=SEEN))


HOSTS = ("a", "b", "c", "d")
hosts = st.sampled_from(HOSTS)


class Cloud(RuleBasedStateMachine):
    """Everything that a host table shows, changed at random through the doors that the other rooms use."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = Clock()
        self.db = fresh(f"sqlite:///{self.folder.name}/minova.sqlite")
        self.db.run(add_requests)
        self.source = source_of(self.db, self.clock)
        self.number = 0

    def teardown(self) -> None:
        self.db.close()
        self.folder.cleanup()

    def change(self, work: Any, *changed: str) -> None:
        def whole(session: Session) -> None:
            before = node_ids(session, *changed)
            work(session)
            changes.append(session, {*before, *node_ids(session, *changed)}, self.clock.now)

        self.db.run(whole)

    @rule(host=hosts, memory_mb=st.sampled_from([1024, 4096]))
    def a_node_comes_or_changes(self, host: str, memory_mb: int) -> None:
        def work(session: Session) -> None:
            node = session.scalar(select(models.ComputeNode).where(models.ComputeNode.host == host))
            if node is None:
                service_id = session.scalar(select(models.Service.id).where(models.Service.host == host))
                add_host(
                    session, host, now=self.clock.now, service=service_id is None, announce=False, memory_mb=memory_mb
                )
            else:
                node.memory_mb, node.generation = memory_mb, node.generation + 1
                inventories.set_inventories(session, node.uuid, inventories_of(node))

        self.change(work, host)

    @rule(host=hosts, used=st.integers(0, 12), busy=st.booleans())
    def a_node_reports(self, host: str, used: int, busy: bool) -> None:
        """Cells, devices, metrics and statistics."""
        values = {
            "numa_topology": without_arrays(topology(used)),
            "pci_device_pools": [{"vendor_id": "8086", "product_id": "1572", "count": 2}] if busy else [],
            "metrics": [{"name": "cpu.percent", "value": used / 12}],
            "stats": {"io_workload": str(used)} if busy else {},
            "cpu_info": '{"arch": "x86_64", "features": ["avx"], "machine_types": {"x86_64": ["pc"]}}',
        }
        self.change(
            lambda s: s.execute(update(models.ComputeNode).where(models.ComputeNode.host == host).values(**values)),
            host,
        )

    @rule(host=hosts, has=st.sets(st.sampled_from(["HW_CPU_X86_AVX", "STORAGE_DISK_SSD"])))
    def a_provider_changes(self, host: str, has: set[str]) -> None:
        """Its traits, and its aggregates, named as they are."""

        def work(session: Session) -> None:
            ours = models.ResourceProvider.uuid == named(f"node {host}")
            provider_id = session.scalar(select(models.ResourceProvider.id).where(ours))
            for model in (models.ProviderTrait, models.ProviderAggregate):
                session.execute(delete(model).where(model.provider_id == provider_id))
            if provider_id is not None:
                session.add_all(models.ProviderTrait(provider_id=provider_id, trait=trait) for trait in has)
                uuids = (named(aggregate) for aggregate in has)
                session.add_all(
                    models.ProviderAggregate(provider_id=provider_id, aggregate_uuid=uuid) for uuid in uuids
                )

        self.change(work, host)

    @rule(host=hosts)
    def a_node_goes(self, host: str) -> None:
        def work(session: Session) -> None:
            of_node.delete(session, named(f"node {host}"))
            session.execute(delete(models.ComputeNode).where(models.ComputeNode.host == host))

        self.change(work, host)

    @rule(host=hosts, disabled=st.booleans(), down_reason=st.sampled_from([None, "gone"]))
    def a_service_is_switched(self, host: str, disabled: bool, down_reason: str | None) -> None:
        statement = update(models.Service).where(models.Service.host == host)
        self.change(lambda s: s.execute(statement.values(disabled=disabled, down_reason=down_reason)), host)

    @rule(host=hosts)
    def a_service_goes(self, host: str) -> None:
        def work(session: Session) -> None:
            for service in session.scalars(select(models.Service).where(models.Service.host == host)):
                session.delete(service)

        self.change(work, host)

    @rule(metadata=st.sampled_from([{}, {"availability_zone": "z"}]), members=st.sets(hosts))
    def an_aggregate_changes(self, metadata: dict[str, str], members: set[str]) -> None:
        def work(session: Session) -> None:
            session.execute(delete(models.AggregateHost))
            session.execute(delete(models.Aggregate))
            session.add(models.Aggregate(id=1, uuid=named("g"), name="g", metadata_=metadata, created_at=SEEN))
            session.flush()
            session.add_all(models.AggregateHost(aggregate_id=1, host=host) for host in members)
            changes.append(session, [EVERY_NODE], self.clock.now)

        self.db.run(work)

    @rule(host=hosts, pinned=st.booleans())
    def an_instance_is_claimed(self, host: str, pinned: bool) -> None:
        self.number += 1
        uuid = f"i{self.number}"
        self.db.run(lambda session: add_instance(session, named(uuid), reservation_id=PINNED if pinned else PLAIN))
        claim(self.db, claim_of(uuid, host))

    @rule(data=st.data())
    def an_instance_arrives(self, data: Any) -> None:
        """Where it holds its allocation: a compute's claim is fenced to the host that the scheduler chose."""
        uuid = f"i{data.draw(st.integers(0, self.number))}"
        for host in {host for host, _ in held(self.db, uuid)}:
            arrived = update(models.Instance).where(models.Instance.uuid == named(uuid)).values(host=host, node=host)
            self.change(functools.partial(Session.execute, statement=arrived), host)

    @rule(data=st.data())
    def an_instance_goes(self, data: Any) -> None:
        uuid = named(f"i{data.draw(st.integers(0, self.number))}")
        with self.db.read() as session:
            host = session.scalar(select(models.Instance.host).where(models.Instance.uuid == uuid))
        statement = update(models.Instance).where(models.Instance.uuid == uuid).values(deleted_at=SEEN)

        def work(session: Session) -> None:
            session.execute(statement)
            claims.release(session, [uuid])

        self.change(work, host or "")

    @rule(seconds=st.floats(0, 50), heard=st.sets(hosts))
    def time_passes(self, seconds: float, heard: set[str]) -> None:
        self.clock.now += seconds
        hear(self.db, self.clock.now, *heard)

    @rule()
    def the_feed_is_trimmed(self) -> None:
        self.db.run(lambda session: changes.trim(session, self.clock.now, 1000))

    @rule(count=st.integers(0, 3))
    def something_was_consumed(self, count: int) -> None:
        for row in range(min(count, len(self.source.table))):
            self.source.table.consume(row, spec_of())

    @invariant()
    def refreshed_is_rebuilt(self) -> None:
        table = self.source.refresh(liveness=True)
        assert comparable(table) == comparable(rebuilt(self.db))


TestCloud = Cloud.TestCase
TestCloud.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)


def test_a_refresh_reads_only_what_changed(db: Database) -> None:
    for number in range(30):
        put_host(db, f"h{number}")
    source = source_of(db)
    first = list(source.refresh().records)
    assert len(first) == 30
    assert read_anew(source.refresh(), first) == []
    claim(db, claim_of("one", "h7"))
    hear(db, 1009.0, *(f"h{number}" for number in range(30)))
    assert read_anew(source.refresh(), first) == ["h7"]


def test_with_ten_thousand_hosts_beating_and_one_percent_changed_one_percent_is_read(db: Database) -> None:
    count, clock = 10_000, Clock()
    fill(db, host_records(count, numa=False), clock.now)
    source = source_of(db, clock)
    first = list(source.refresh().records)
    assert len(first) == count
    clock.now += 10
    changed = list(range(1, count, 100))
    with count_rows(db) as rows:
        beat = update(models.Heartbeat).values(last_seen=clock.now)
        grow = update(models.ComputeNode).where(models.ComputeNode.id.in_(changed)).values(memory_mb=7)
        db.run(lambda session: [session.execute(beat), session.execute(grow)])
        db.run(lambda session: changes.append(session, changed, 1.0))
        table = source.refresh()
    assert len(read_anew(table, first)) == len(changed)
    assert int((table.memory_mb == 7).sum()) == len(changed)
    # What is read of the database, all queries together: the changed hosts with what belongs to each, and the heartbeats
    # that are new, which at this count are every host's.
    assert rows.fetched - count < 20 * len(changed)
    with count_rows(db) as rows:
        source.refresh()
    assert rows.fetched < 20


def test_what_a_host_has_yet_to_meet_is_taken_from_its_cells_devices_and_counts(db: Database) -> None:
    node = {"numa_topology": without_arrays(topology(0)), "stats": {"io_workload": "2", "failed_builds": "1"}}
    pools = [{"vendor_id": "8086", "product_id": "1572", "count": 2}]
    put_host(db, "a", pci_device_pools=pools, **node)
    db.run(add_requests)
    db.run(lambda session: add_instance(session, named("new"), reservation_id=PINNED))
    before = rebuilt(db).host(0)
    assert (before.num_io_ops, before.failed_builds, before.num_instances) == (2, 1, 0)
    claim(db, claim_of("new", "a"))
    host = rebuilt(db).host(0)
    assert (host.num_io_ops, host.num_instances, list(host.instances)) == (3, 1, [named("new")])
    assert [len(cell.pinned_cpus) for cell in host.numa_topology.cells] == [2, 2]
    assert [pool.count for pool in host.pci_pools] == [1]


@pytest.mark.parametrize(
    ("figures", "why"),
    [
        ({"stats": {"io_workload": "much"}}, "io_workload is 'much'"),
        ({"stats": {"failed_builds": "9" * 400}}, "failed_builds is too large"),
        ({"stats": {"failed_builds": "9" * 5000}}, "failed_builds"),
        ({"numa_topology": NUMATopology((NUMACell(id=0, memory=2**62),))}, "memory"),
        ({"numa_topology": {"cells": [{"id": 0, "mempages": [{"size_kb": 6, "total": 1}]}]}}, "6 KiB is no size"),
        ({"metrics": [{"name": "cpu.percent", "value": 1e300}]}, "value"),
        ({"pci_device_pools": [{"vendor_id": "1", "product_id": "1", "count": 2**70}]}, "count"),
        ({"host_ip": "nowhere"}, "nowhere"),
        ({"cpu_info": "[" * 5000}, ""),
        ({"cpu_info": '{"maxphysaddr": "wide"}'}, "maxphysaddr"),
        ({"cpu_info": '{"features": ' + "[" * 40 + "]" * 40 + "}"}, "nested"),
        ({"hypervisor_version": -5}, "hypervisor_version is -5"),
    ],
)
def test_bug_node_whose_report_makes_no_sense_takes_nothing_and_says_why(
    db: Database, caplog: pytest.LogCaptureFixture, figures: dict[str, Any], why: str
) -> None:
    """2**62 in a cell raised OverflowError in the decision for others; a report that could not be read left no reason in a diagnosis."""
    put_host(db, "a")
    put_host(db, "b")
    db.run(lambda s: s.execute(update(models.ComputeNode).where(models.ComputeNode.host == "a").values(**figures)))
    table = rebuilt(db)
    assert names(table) == ["a", "b"]
    left_out, other = table.host(0), table.host(1)
    assert why in (left_out.service.refused_report or "")
    assert (left_out.memory_mb, left_out.vcpus, left_out.numa_topology) == (0, 0, None)
    assert table.inventory_of(0, "VCPU").capacity == 0
    assert other.service.refused_report is None
    assert "Node a of host a offers nothing" in caplog.text
    answer = manager_of(db).preview_destinations(CTX, spec_of(), uuids(1))
    assert [chosen.host for chosen in answer.selections[0]] == ["b"]


def test_a_host_with_a_description_of_its_cpu_takes_servers(db: Database) -> None:
    put_host(db, "a")
    described = json.dumps({"arch": "x86_64", "features": ["avx"], "machine_types": {"x86_64": ["pc"]}})
    db.run(lambda s: s.execute(update(models.ComputeNode).values(cpu_info=described)))
    host = rebuilt(db).host(0)
    assert (host.cpu_info, host.service.refused_report) == (described, None)


def test_a_number_that_appears_late_is_not_missed(db: Database) -> None:
    clock = Clock()
    put_host(db, "a")
    source = source_of(db, clock)
    source.refresh()
    with db.read() as session:
        last = max(session.scalars(select(models.HostChange.seq)))
    # Two transactions took their numbers; the later one commits first.
    db.run(lambda s: s.execute(insert(models.HostChange).values(seq=last + 2, node_id=1, at=1.0)))
    source.refresh()
    db.run(lambda s: s.execute(update(models.ComputeNode).values(memory_mb=7)))
    db.run(lambda s: s.execute(insert(models.HostChange).values(seq=last + 1, node_id=1, at=1.0)))
    assert source.refresh().host(0).memory_mb == 7


def test_a_number_below_the_newest_at_the_first_reading_is_not_missed_either(db: Database) -> None:
    put_host(db, "a")
    db.run(lambda s: s.execute(insert(models.HostChange).values(seq=50, node_id=1, at=1.0)))
    source = source_of(db)
    source.refresh()
    db.run(lambda s: s.execute(update(models.ComputeNode).values(memory_mb=7)))
    db.run(lambda s: s.execute(insert(models.HostChange).values(seq=49, node_id=1, at=1.0)))
    assert source.refresh().host(0).memory_mb == 7


def test_a_reader_behind_the_trim_reads_all(db: Database) -> None:
    put_host(db, "a")
    source = source_of(db)
    source.refresh()
    db.run(lambda s: s.execute(update(models.ComputeNode).values(memory_mb=7)))
    db.run(lambda session: changes.append(session, [1], 2.0))
    db.run(lambda session: changes.append(session, [99], 3.0))
    db.run(lambda session: changes.trim(session, 9999.0, 1000))
    assert source.refresh().host(0).memory_mb == 7


def test_once_a_minute_what_changed_without_a_word_is_found(db: Database) -> None:
    clock = Clock()
    put_host(db, "a")
    source = source_of(db, clock)
    source.refresh()
    db.run(lambda s: s.execute(update(models.ComputeNode).values(memory_mb=7, generation=5)))
    assert source.refresh().host(0).memory_mb == 32768
    clock.now += COMPARE_INTERVAL
    assert source.refresh().host(0).memory_mb == 7


def test_a_refresh_that_fails_loses_nothing(db: Database) -> None:
    put_host(db, "a")
    source = source_of(db)
    source.refresh()
    claim(db, claim_of("one", "a"))
    db.run(lambda session: session.execute(text("ALTER TABLE aggregate_hosts RENAME TO away")))
    with pytest.raises(OperationalError):
        source.refresh()
    db.run(lambda session: session.execute(text("ALTER TABLE away RENAME TO aggregate_hosts")))
    assert source.refresh().host(0).inventory("VCPU").used == 1


def test_a_node_without_a_service_is_left_out_with_a_warning(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    put_host(db, "a", service=False)
    put_host(db, "b")
    assert names(rebuilt(db)) == ["b"]
    assert "host a" in caplog.text


def test_a_host_that_falls_silent_is_seen_without_any_change(db: Database) -> None:
    clock = Clock()
    for host in HOSTS:
        put_host(db, host, now=clock.now)
    source = source_of(db, clock)
    source.refresh()
    clock.now += 61
    hear(db, clock.now, "a", "b", "c")
    assert [source.refresh().host(row).service.silent_since for row in range(4)] == [None, None, None, 1000.0]
    clock.now += 5
    hear(db, clock.now, "d")
    assert source.refresh().host(3).service.silent_since is None


def test_a_service_that_never_beat_counts_as_silent(db: Database) -> None:
    put_host(db, "a")
    db.run(lambda s: s.execute(delete(models.Heartbeat)))
    assert rebuilt(db).host(0).service.silent_since == 0.0


def test_a_host_that_has_just_come_is_not_taken_for_alive(db: Database) -> None:
    clock = Clock()
    put_host(db, "a", now=clock.now)
    source = source_of(db, clock)
    source.refresh()
    put_host(db, "b", now=clock.now - 100)
    assert [source.refresh().host(row).service.silent_since for row in range(2)] == [None, clock.now - 100]


def test_usage_is_the_larger_of_what_the_node_says_and_what_is_allocated(db: Database) -> None:
    put_host(db, "a", memory_mb_used=5000, vcpus_used=0, local_gb_used=0)
    db.run(lambda session: add_instance(session, named("known"), "a", "a"))
    claim(db, claim_of("known", "a", VCPU=3, MEMORY_MB=1000, DISK_GB=20))
    host = rebuilt(db).host(0)
    assert (host.memory_mb_used, host.vcpus_used, host.local_gb_used) == (5000, 3, 20)
    assert host.free_disk_mb == 480 * 1024


def test_a_claim_that_the_node_has_not_met_yet_counts_on_top_of_what_it_says(db: Database) -> None:
    put_host(db, "a", memory_mb_used=5000)
    db.run(lambda session: add_instance(session, named("new")))
    claim(db, claim_of("new", "a", MEMORY_MB=1000))
    assert rebuilt(db).host(0).memory_mb_used == 6000
