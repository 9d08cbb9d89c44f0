"""Laws of tasks: whatever is done by whom, in whichever order, whoever dies, and whatever the database refuses."""

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
from minova.objects.build import BuildMessage
from minova.placement.audit import gather
from tests.functional.conductor.desk import CTX, Desk, request
from tests.tables import make_tables

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
        self.desk = Desk(url)
        self.conductors = {"one": self.desk.conductor, "two": self.desk.start("two")}
        self.epochs: dict[str, int] = {}
        self.ended: dict[str, str] = {}

    def teardown(self) -> None:
        self.desk.close()
        self._folder.cleanup()

    @rule(target=servers, who=st.sampled_from(CONDUCTORS))
    def ask(self, who: str) -> str:
        return self.conductors[who].create_servers(CTX, request=request()).instance_uuids[0]

    @rule(uuid=servers, who=st.sampled_from(CONDUCTORS))
    def delete(self, uuid: str, who: str) -> None:
        self._say(lambda: self.conductors[who].delete_server(CTX, instance_uuid=uuid))

    @rule(uuid=servers, who=st.sampled_from(CONDUCTORS), name=st.sampled_from(["stop", "start"]))
    def act(self, uuid: str, who: str, name: str) -> None:
        self._say(lambda: self.conductors[who].start_action(CTX, instance_uuid=uuid, action=name))

    @rule(host=HOSTS, data=st.data(), well=st.booleans())
    def report_action(self, host: str, data: st.DataObject, well: bool) -> None:
        """Of any action this host was ever asked for."""
        if not self.desk.hosts[host].actions:
            return
        name, uuid, action_id = data.draw(st.sampled_from(self.desk.hosts[host].actions))
        said: dict[str, Any] = {"instance_uuid": uuid, "action_id": action_id, "host": host}
        if well:
            state = {"stop": 4, "start": 1}[name]
            self._say(lambda: self.desk.conductor.begin_action(CTX, **said))
            self._say(lambda: self.desk.conductor.action_succeeded(CTX, **said, power_state=state))
        else:
            self._say(lambda: self.desk.conductor.action_failed(CTX, **said, reason="broken"))

    @rule(data=st.data())
    def work(self, data: st.DataObject) -> None:
        """One piece of what waits, in any order."""
        if self.desk.waiting:
            self.desk.waiting.pop(data.draw(st.integers(0, len(self.desk.waiting) - 1)))[1]()

    @rule(who=st.sampled_from(CONDUCTORS))
    def die(self, who: str) -> None:
        self.desk.kill(who)
        self.conductors[who] = self.desk.start(who)

    @rule(who=st.sampled_from(CONDUCTORS), seconds=st.sampled_from([0.5, 5, 40, 300]))
    def look(self, who: str, seconds: float) -> None:
        self.desk.now += seconds
        for host in "abc":
            self.conductors[who].heartbeat(CTX, host=host, binary="minova-compute")
        for task in self.conductors[who].periodic_tasks():
            task.work()

    @rule(lost=st.booleans(), mood=st.sampled_from([None, errors.ServiceUnavailable("away")]))
    def scheduler(self, lost: bool, mood: Exception | None) -> None:
        self.desk.scheduler.lose_answer, self.desk.scheduler.mood = lost, mood

    @rule(host=HOSTS, deaf=st.booleans())
    def bus(self, host: str, deaf: bool) -> None:
        self.desk.hosts[host].deaf = deaf

    @rule(host=HOSTS, data=st.data(), well=st.booleans())
    def report(self, host: str, data: st.DataObject, well: bool) -> None:
        """Of any attempt this host was ever asked for."""
        builds = self.desk.hosts[host].builds
        if not builds:
            return
        message = data.draw(st.sampled_from(builds))
        uuid, attempt = message.instance.uuid, message.attempt
        if well:
            self._say(lambda: self.desk.claim(host, uuid, attempt))
            self._say(lambda: self.desk.succeed(host, uuid, attempt))
        else:
            self._say(lambda: self.desk.fail(host, uuid, attempt))

    @rule(host=HOSTS)
    def removed(self, host: str) -> None:
        for uuid in self.desk.hosts[host].terminated:
            self.desk.conductor.instance_deleted(CTX, instance_uuid=uuid, host=host)

    @staticmethod
    def _say(words: Callable[[], Any]) -> None:
        try:
            words()
        except (errors.Conflict, errors.NotFound):
            return

    @invariant()
    def no_attempt_belongs_to_two_hosts(self) -> None:
        owners: dict[tuple[str, int], set[str]] = {}
        for host in self.desk.hosts.values():
            for message in host.builds:
                owners.setdefault((message.instance.uuid, message.attempt), set()).add(host.name)
        assert all(len(hosts) == 1 for hosts in owners.values()), owners

    @invariant()
    def epochs_only_rise(self) -> None:
        with self.desk.db.read() as session:
            rows = session.execute(select(models.Task.instance_uuid, models.Task.epoch)).all()
        for uuid, epoch in rows:
            assert epoch >= self.epochs.get(uuid, 0)
            self.epochs[uuid] = epoch

    @invariant()
    def who_is_in_transit_has_a_task_and_nobody_else(self) -> None:
        with self.desk.db.read() as session:
            instances = session.scalars(select(models.Instance)).all()
            with_task = set(session.scalars(select(models.Task.instance_uuid)))
        assert {one.uuid for one in instances if one.task_state is not None} == with_task

    @invariant()
    def what_has_ended_stays_ended(self) -> None:
        with self.desk.db.read() as session:
            for one in session.scalars(select(models.Instance)):
                before = self.ended.get(one.uuid)
                if before is not None:
                    # Server actions lead from one of these to the other.
                    runs = {"active", "stopped"}
                    follow = {before, "deleted"} | (runs if before in runs else set())
                    assert one.vm_state in follow, (before, one.vm_state)
                if one.task_state is None:
                    self.ended[one.uuid] = one.vm_state

    @invariant()
    def allocations_are_of_instances_that_live(self) -> None:
        held = self.desk.allocated()
        with self.desk.db.read() as session:
            rows = {one.uuid: one for one in session.scalars(select(models.Instance))}
        for uuid, host in held.items():
            assert rows[uuid].vm_state in {"building", "active", "stopped"}
            assert rows[uuid].host in {None, host}
        for uuid, row in rows.items():
            if row.vm_state in {"active", "stopped"}:
                assert held[uuid] == row.host
        used = Counter(held.values())
        for host in "abc":
            assert self.desk.used(host)["VCPU"] == used[host]

    @invariant()
    def nothing_under_way_confuses_the_audit_of_placement(self) -> None:
        with self.desk.db.read() as session:
            assert gather.findings(session) == []


def test_laws_of_tasks() -> None:
    run_state_machine_as_test(
        Tasks,
        settings=settings(
            max_examples=25, stateful_step_count=STEPS, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


class Dies(BaseException):
    """The process ends here."""


def storyteller(desk: Desk, fuse: list[int]) -> None:
    """From now on every statement and commit of the database may be the last of the conductor."""

    def burn(*_: Any, **__: Any) -> None:
        if fuse:
            fuse[0] -= 1
            if fuse[0] < 0:
                fuse.clear()
                raise Dies

    event.listen(desk.db.engine, "before_cursor_execute", burn)
    event.listen(desk.db.engine, "commit", burn)


def live(desk: Desk, actions: list[Callable[[], Any]]) -> bool:
    """Do what a user and a host do; whether the conductor died of it."""
    for act in actions:
        try:
            act()
        except Dies:
            desk.kill("one")
            return True
    return False


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fuse=st.integers(0, 70), fails=st.booleans(), deletes=st.booleans())
def test_killed_at_any_statement_every_instance_comes_to_an_end(fuse: int, fails: bool, deletes: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/minova.sqlite"
        make_tables(url)
        desk = Desk(url)
        storyteller(desk, left := [fuse])
        made: list[str] = []
        told: set[tuple[str, str, int]] = set()

        def hosts_work() -> None:
            for host in desk.hosts.values():
                for message in list(host.builds):
                    key = (host.name, message.instance.uuid, message.attempt)
                    if key not in told:
                        work_on(desk, host.name, message, fails=fails and host.name == "a")
                        told.add(key)
                for uuid in host.terminated:
                    desk.conductor.instance_deleted(CTX, instance_uuid=uuid, host=host.name)

        asked = request(2, request_uuid="11111111-1111-4111-8111-111111111111", body_hash="h")
        story: list[Callable[[], Any]] = [
            lambda: made.extend(desk.conductor.create_servers(CTX, request=asked).instance_uuids),
            desk.settle,
            hosts_work,
            lambda: desk.delete(made[0]) if deletes else None,
            hosts_work,
        ]
        live(desk, story)
        left.clear()
        with desk.db.read() as session:
            assert gather.findings(session) == []
        # Its successor, the client that asks again, and the hosts, which repeat what nobody has heard.
        desk.conductor = desk.start("one")
        again = desk.conductor.create_servers(CTX, request=asked).instance_uuids
        assert not made or tuple(made) == again
        for _ in range(4):
            desk.settle()
            hosts_work()
            desk.now += 20
            desk.beat()
        states = {uuid: desk.state(uuid) for uuid in again}
        ends = {"active/None on b" if fails else "active/None on a"}
        assert set(states.values()) <= ends | {f"deleted/None on {host}" for host in (None, "a", "b")}, states
        assert desk.count(models.Task) == 0
        assert set(desk.allocated()) == {uuid for uuid in again if states[uuid].startswith("active")}
        desk.close()


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fuse=st.integers(0, 40), fails=st.booleans(), deletes=st.booleans())
def test_killed_at_any_statement_every_server_action_comes_to_an_end(fuse: int, fails: bool, deletes: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/minova.sqlite"
        make_tables(url)
        desk = Desk(url)
        uuid = desk.active()
        storyteller(desk, left := [fuse])

        def host_works() -> None:
            for _, uuid, action_id in desk.hosts["a"].actions:
                said: dict[str, Any] = {"instance_uuid": uuid, "action_id": action_id, "host": "a"}
                with suppress(errors.StaleAttempt):
                    desk.conductor.begin_action(CTX, **said)
                    if fails:
                        desk.conductor.action_failed(CTX, **said, reason="broken")
                    else:
                        desk.conductor.action_succeeded(CTX, **said, power_state=4)
            for uuid in desk.hosts["a"].terminated:
                desk.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")

        story: list[Callable[[], Any]] = [
            lambda: desk.conductor.start_action(CTX, instance_uuid=uuid, action="stop"),
            lambda: desk.delete(uuid) if deletes else None,
            host_works,
        ]
        live(desk, story)
        left.clear()
        asked = desk.count(models.Task) == 1 or ("stop", "Success") in desk.actions(uuid)
        desk.conductor = desk.start("one")
        for _ in range(4):
            desk.settle()
            host_works()
            desk.now += 20
            desk.beat()
        ends = {"deleted/None on a"} if deletes else set()
        ends |= {"stopped/None on a"} if asked and not fails else {"active/None on a"}
        assert desk.state(uuid) in ends | ({"stopped/None on a"} if deletes else set())
        assert desk.count(models.Task) == 0
        assert set(desk.allocated()) == (set() if desk.state(uuid).startswith("deleted") else {uuid})
        desk.close()


def work_on(desk: Desk, host: str, message: BuildMessage, *, fails: bool) -> None:
    uuid, attempt = message.instance.uuid, message.attempt
    try:
        desk.claim(host, uuid, attempt)
        if fails:
            desk.fail(host, uuid, attempt)
        else:
            desk.succeed(host, uuid, attempt)
    except errors.StaleAttempt:
        return


def test_a_database_that_is_away_loses_no_task(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/minova.sqlite"
    make_tables(url)
    desk = Desk(url)
    (uuid,) = desk.conductor.create_servers(CTX, request=request()).instance_uuids
    (tmp_path / "minova.sqlite").rename(tmp_path / "away")
    desk.db.engine.dispose()
    (tmp_path / "minova.sqlite").mkdir()
    with pytest.raises(errors.ServiceUnavailable):
        desk.conductor.create_servers(CTX, request=request())
    desk.settle()
    (tmp_path / "minova.sqlite").rmdir()
    (tmp_path / "away").rename(tmp_path / "minova.sqlite")
    desk.tick(desk.conductor, 61)
    desk.build("a", uuid)
    assert desk.state(uuid) == "active/None on a"
