"""Laws of tasks: in any order of requests, whichever process dies, and whatever the database refuses."""

import os
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy import event, select

from minova import errors
from minova.db import models
from minova.objects.servers.build import BuildMessage
from minova.placement.audit import gather
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, new_request, request
from tests.tables import make_tables

# Of each law. The nightly run has more.
SEQUENCES = int(os.environ.get("MINOVA_SEQUENCES", "12"))
STEPS = 25
CONDUCTORS = ("one", "two")
HOSTS = st.sampled_from("abc")


class Tasks(RuleBasedStateMachine):
    """Two conductors over one database. Hosts build what they are asked, say so late, or never do."""

    servers = Bundle("servers")

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        url = f"sqlite:///{self._folder.name}/minova.sqlite"
        make_tables(url)
        self.harness = ConductorHarness(url)
        self.conductors = {"one": self.harness.conductor, "two": self.harness.start("two")}
        self.epochs: dict[tuple[str, int | None], int] = {}
        self.ended: dict[str, str] = {}

    def teardown(self) -> None:
        self.harness.close()
        self._folder.cleanup()

    @rule(target=servers, who=st.sampled_from(CONDUCTORS))
    def ask(self, who: str) -> str:
        return self.conductors[who].create_servers(CTX, request=request()).instance_uuids[0]

    @rule(uuid=servers, who=st.sampled_from(CONDUCTORS))
    def delete(self, uuid: str, who: str) -> None:
        self._say(lambda: self.conductors[who].delete_server(new_request(), instance_uuid=uuid))

    @rule(uuid=servers, who=st.sampled_from(CONDUCTORS), name=st.sampled_from(["stop", "start"]))
    def act(self, uuid: str, who: str, name: str) -> None:
        self._say(lambda: self.conductors[who].start_action(new_request(), instance_uuid=uuid, action=name))

    @rule(host=HOSTS, data=st.data(), well=st.booleans())
    def report_action(self, host: str, data: st.DataObject, well: bool) -> None:
        """Of any action this host was ever asked for."""
        if not self.harness.hosts[host].actions:
            return
        name, uuid, action_id = data.draw(st.sampled_from(self.harness.hosts[host].actions))
        report: dict[str, Any] = {"instance_uuid": uuid, "action_id": action_id, "host": host}
        if well:
            state = {"stop": 4, "start": 1}[name]
            self._say(lambda: self.harness.conductor.begin_action(CTX, **report))
            self._say(lambda: self.harness.conductor.action_succeeded(CTX, **report, power_state=state))
        else:
            self._say(lambda: self.harness.conductor.action_failed(CTX, **report, reason="broken"))

    @rule(data=st.data())
    def work(self, data: st.DataObject) -> None:
        """One piece of what waits, in any order."""
        if self.harness.waiting:
            self.harness.waiting.pop(data.draw(st.integers(0, len(self.harness.waiting) - 1)))[1]()

    @rule(who=st.sampled_from(CONDUCTORS))
    def die(self, who: str) -> None:
        self.harness.kill(who)
        self.conductors[who] = self.harness.start(who)

    @rule(who=st.sampled_from(CONDUCTORS), seconds=st.sampled_from([0.5, 5, 40, 300]))
    def look(self, who: str, seconds: float) -> None:
        self.harness.now += seconds
        for host in "abc":
            self.conductors[who].heartbeat(CTX, host=host, binary="minova-compute")
        for task in self.conductors[who].periodic_tasks():
            task.work()

    @rule(lost=st.booleans(), mood=st.sampled_from([None, errors.ServiceUnavailable("away")]))
    def scheduler(self, lost: bool, mood: Exception | None) -> None:
        self.harness.scheduler.lose_answer, self.harness.scheduler.mood = lost, mood

    @rule(host=HOSTS, deaf=st.booleans())
    def bus(self, host: str, deaf: bool) -> None:
        self.harness.hosts[host].deaf = deaf

    @rule(host=HOSTS, data=st.data(), well=st.booleans())
    def report(self, host: str, data: st.DataObject, well: bool) -> None:
        """Of any attempt this host was ever asked for."""
        builds = self.harness.hosts[host].builds
        if not builds:
            return
        message = data.draw(st.sampled_from(builds))
        uuid, attempt = message.instance.uuid, message.attempt
        if well:
            self._say(lambda: self.harness.claim(host, uuid, attempt))
            self._say(lambda: self.harness.succeed(host, uuid, attempt))
        else:
            self._say(lambda: self.harness.fail(host, uuid, attempt))

    @rule(host=HOSTS)
    def removed(self, host: str) -> None:
        for uuid in self.harness.hosts[host].terminated:
            self.harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host=host)

    @staticmethod
    def _say(words: Callable[[], Any]) -> None:
        try:
            words()
        except (errors.Conflict, errors.NotFound):
            return

    @invariant()
    def no_attempt_belongs_to_two_hosts(self) -> None:
        owners: dict[tuple[str, int], set[str]] = {}
        for host in self.harness.hosts.values():
            for message in host.builds:
                owners.setdefault((message.instance.uuid, message.attempt), set()).add(host.name)
        assert all(len(hosts) == 1 for hosts in owners.values()), owners

    @invariant()
    def epochs_only_rise(self) -> None:
        with self.harness.db.read() as session:
            columns = models.Task.instance_uuid, models.Task.action_id, models.Task.epoch
            rows = session.execute(select(*columns)).all()
        for uuid, action_id, epoch in rows:
            assert epoch >= self.epochs.get((uuid, action_id), 0)
            self.epochs[uuid, action_id] = epoch

    @invariant()
    def instances_in_transit_have_a_task_and_no_others(self) -> None:
        with self.harness.db.read() as session:
            instances = session.scalars(select(models.Instance)).all()
            with_task = set(session.scalars(select(models.Task.instance_uuid)))
        assert {instance.uuid for instance in instances if instance.task_state is not None} == with_task

    @invariant()
    def what_has_ended_stays_ended(self) -> None:
        with self.harness.db.read() as session:
            for instance in session.scalars(select(models.Instance)):
                before = self.ended.get(instance.uuid)
                if before is not None:
                    # Server actions lead from one of these to the other.
                    runs = {"active", "stopped"}
                    follow = {before, "deleted"} | (runs if before in runs else set())
                    assert instance.vm_state in follow, (before, instance.vm_state)
                if instance.task_state is None:
                    self.ended[instance.uuid] = instance.vm_state

    @invariant()
    def allocations_are_of_instances_that_live(self) -> None:
        held = self.harness.allocated()
        with self.harness.db.read() as session:
            rows = {instance.uuid: instance for instance in session.scalars(select(models.Instance))}
        for uuid, host in held.items():
            assert rows[uuid].vm_state in {"building", "active", "stopped"}
            assert rows[uuid].host in {None, host}
        for uuid, row in rows.items():
            if row.vm_state in {"active", "stopped"}:
                assert held[uuid] == row.host
        used = Counter(held.values())
        for host in "abc":
            assert self.harness.used(host)["VCPU"] == used[host]

    @invariant()
    def nothing_under_way_confuses_the_audit_of_placement(self) -> None:
        with self.harness.db.read() as session:
            assert gather.findings(session) == []


def test_laws_of_tasks() -> None:
    run_state_machine_as_test(
        Tasks,
        settings=settings(
            max_examples=SEQUENCES // 4,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


class Dies(BaseException):
    """The process ends here."""


def random_actions(harness: ConductorHarness, fuse: list[int]) -> None:
    """From now on every statement and commit of the database may be the last of the conductor."""

    def burn(*_: Any, **__: Any) -> None:
        if fuse:
            fuse[0] -= 1
            if fuse[0] < 0:
                fuse.clear()
                raise Dies

    event.listen(harness.db.engine, "before_cursor_execute", burn)
    event.listen(harness.db.engine, "commit", burn)


def run_actions(harness: ConductorHarness, actions: list[Callable[[], Any]]) -> bool:
    """Do what a user and a host do; whether the conductor died of it."""
    for act in actions:
        try:
            act()
        except Dies:
            harness.kill("one")
            return True
    return False


@settings(max_examples=SEQUENCES // 2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fuse=st.integers(0, 70), fails=st.booleans(), deletes=st.booleans())
def test_killed_at_any_statement_every_instance_comes_to_an_end(fuse: int, fails: bool, deletes: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/minova.sqlite"
        make_tables(url)
        harness = ConductorHarness(url)
        random_actions(harness, left := [fuse])
        created_uuids: list[str] = []
        reported: set[tuple[str, str, int]] = set()

        def hosts_work() -> None:
            for host in harness.hosts.values():
                for message in list(host.builds):
                    key = (host.name, message.instance.uuid, message.attempt)
                    if key not in reported:
                        work_on(harness, host.name, message, fails=fails and host.name == "a")
                        reported.add(key)
                for uuid in host.terminated:
                    harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host=host.name)

        server_request = request(2, request_uuid="11111111-1111-4111-8111-111111111111", body_hash="h")
        story: list[Callable[[], Any]] = [
            lambda: created_uuids.extend(harness.conductor.create_servers(CTX, request=server_request).instance_uuids),
            harness.settle,
            hosts_work,
            lambda: harness.delete(created_uuids[0]) if deletes else None,
            hosts_work,
        ]
        run_actions(harness, story)
        left.clear()
        with harness.db.read() as session:
            assert gather.findings(session) == []
        # Its successor, the client that asks again, and the hosts, which repeat reports that were not answered.
        harness.conductor = harness.start("one")
        again = harness.conductor.create_servers(CTX, request=server_request).instance_uuids
        assert not created_uuids or tuple(created_uuids) == again
        for _ in range(4):
            harness.settle()
            hosts_work()
            harness.now += 20
            harness.beat()
        states = {uuid: harness.state(uuid) for uuid in again}
        ends = {"active/None on b" if fails else "active/None on a"}
        assert set(states.values()) <= ends | {f"deleted/None on {host}" for host in (None, "a", "b")}, states
        assert harness.count(models.Task) == 0
        assert set(harness.allocated()) == {uuid for uuid in again if states[uuid].startswith("active")}
        harness.close()


@settings(max_examples=SEQUENCES // 4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fuse=st.integers(0, 40), fails=st.booleans(), deletes=st.booleans())
def test_killed_at_any_statement_every_server_action_comes_to_an_end(fuse: int, fails: bool, deletes: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/minova.sqlite"
        make_tables(url)
        harness = ConductorHarness(url)
        uuid = harness.active()
        random_actions(harness, left := [fuse])

        def host_works() -> None:
            for _, uuid, action_id in harness.hosts["a"].actions:
                report: dict[str, Any] = {"instance_uuid": uuid, "action_id": action_id, "host": "a"}
                with suppress(errors.StaleAttempt):
                    harness.conductor.begin_action(CTX, **report)
                    if fails:
                        harness.conductor.action_failed(CTX, **report, reason="broken")
                    else:
                        harness.conductor.action_succeeded(CTX, **report, power_state=4)
            for uuid in harness.hosts["a"].terminated:
                harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")

        story: list[Callable[[], Any]] = [
            lambda: harness.conductor.start_action(new_request(), instance_uuid=uuid, action="stop"),
            lambda: harness.delete(uuid) if deletes else None,
            host_works,
        ]
        run_actions(harness, story)
        left.clear()
        was_requested = harness.count(models.Task) == 1 or ("stop", "Success") in harness.actions(uuid)
        harness.conductor = harness.start("one")
        for _ in range(4):
            harness.settle()
            host_works()
            harness.now += 20
            harness.beat()
        ends = {"deleted/None on a"} if deletes else set()
        ends |= {"stopped/None on a"} if was_requested and not fails else {"active/None on a"}
        assert harness.state(uuid) in ends | ({"stopped/None on a"} if deletes else set())
        assert harness.count(models.Task) == 0
        assert set(harness.allocated()) == (set() if harness.state(uuid).startswith("deleted") else {uuid})
        harness.close()


def work_on(harness: ConductorHarness, host: str, message: BuildMessage, *, fails: bool) -> None:
    uuid, attempt = message.instance.uuid, message.attempt
    try:
        harness.claim(host, uuid, attempt)
        if fails:
            harness.fail(host, uuid, attempt)
        else:
            harness.succeed(host, uuid, attempt)
    except errors.StaleAttempt:
        return


def test_a_database_that_is_away_loses_no_task(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/minova.sqlite"
    make_tables(url)
    harness = ConductorHarness(url)
    (uuid,) = harness.conductor.create_servers(CTX, request=request()).instance_uuids
    (tmp_path / "minova.sqlite").rename(tmp_path / "away")
    harness.db.engine.dispose()
    (tmp_path / "minova.sqlite").mkdir()
    with pytest.raises(errors.ServiceUnavailable):
        harness.conductor.create_servers(CTX, request=request())
    harness.settle()
    (tmp_path / "minova.sqlite").rmdir()
    (tmp_path / "away").rename(tmp_path / "minova.sqlite")
    harness.tick(harness.conductor, 61)
    harness.build("a", uuid)
    assert harness.state(uuid) == "active/None on a"
