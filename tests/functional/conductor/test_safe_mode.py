"""The database goes back in time, or is another one: conductors notice it, and change nothing until all hosts have reported."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from minova import errors
from minova.conductor.tasks.history import CONFIRM
from minova.db.recovery import cloud
from minova.db.recovery.cloud import HOST
from minova.objects.hosts.cloud import LOST, WitnessRecord, is_shown, learned
from minova.objects.hosts.service import Service
from minova.witness import Witness
from tests import backups
from tests.fakes.running_conductor import RunningConductor
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.scheduler.cloud import named


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The database of the harness."""
    return tmp_path / "minova.sqlite"


def seen_by(conductor: RunningConductor) -> WitnessRecord:
    state = conductor.worker.history.state
    assert state is not None
    return learned(None, state)


def record(harness: ConductorHarness) -> cloud.CloudRecord:
    with harness.db.read() as session:
        cloud_record = cloud.record(session, harness.db.now())
    assert cloud_record is not None
    return cloud_record


def report(harness: ConductorHarness, *hosts: str) -> None:
    """Hosts report what they hold, and the database holds all of it."""
    for host in hosts:
        harness.db.run(lambda session: cloud.note_report(session, HOST, host, harness.db.now()))  # noqa: B023


def restore_older(harness: ConductorHarness, file: Path, between: Callable[[], object] = lambda: None) -> None:
    """A backup is taken, more happens, the backup is restored."""
    backups.take(file, file.with_suffix(".backup"))
    harness.tick(harness.conductor, 10)
    between()
    backups.restore(file.with_suffix(".backup"), file)


def confirmed(harness: ConductorHarness, conductor: RunningConductor | None = None) -> None:
    """The doubt lasts long enough."""
    harness.tick(conductor or harness.conductor)
    harness.tick(conductor or harness.conductor, CONFIRM)


# -- a living conductor -------------------------------------------------------------------------------------------------


def test_a_living_conductor_notices_an_older_backup(harness: ConductorHarness, file: Path) -> None:
    restore_older(harness, file)
    confirmed(harness)
    assert record(harness).safe_reason == LOST
    assert harness.conductor.safe_mode.reason == LOST


def test_it_changes_nothing_from_the_first_look_on(harness: ConductorHarness, file: Path) -> None:
    restore_older(harness, file)
    harness.tick(harness.conductor)
    assert record(harness).safe_since is None
    with pytest.raises(errors.ServiceUnavailable, match="Safe mode"):
        harness.create()


def test_no_task_of_an_older_backup_is_executed(harness: ConductorHarness, file: Path) -> None:
    uuid = harness.active("a")
    harness.act(uuid, "rebuild")
    count_before = len(harness.hosts["a"].actions)

    def ends() -> None:
        harness.conductor.action_succeeded(
            CTX, instance_uuid=uuid, action_id=harness.action_id(uuid), host="a", power_state=1
        )

    restore_older(harness, file, ends)
    for _ in range(5):
        harness.tick(harness.conductor, 60)
    assert len(harness.hosts["a"].actions) == count_before
    assert harness.task(uuid) is not None


def test_a_database_that_lags_behind_for_a_moment_is_no_loss(harness: ConductorHarness, file: Path) -> None:
    newest = file.with_suffix(".newest")
    restore_older(harness, file, lambda: backups.take(file, newest))
    harness.tick(harness.conductor)
    backups.restore(newest, file)
    harness.tick(harness.conductor, CONFIRM)
    assert record(harness).safe_since is None
    assert harness.create()


def test_a_commit_whose_answer_is_lost_is_no_loss(harness: ConductorHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = harness.conductor.worker
    run = worker.db.run

    def lose(work: Callable[..., object], *more: object) -> object:
        run(work, *more)  # type: ignore[arg-type]
        raise errors.ServiceUnavailable("the answer to the commit was lost")

    monkeypatch.setattr(worker.db, "run", lose)
    for _ in range(3):
        with pytest.raises(errors.ServiceUnavailable):
            worker.renew()
    monkeypatch.undo()
    for _ in range(3):
        harness.tick(harness.conductor, CONFIRM)
    assert harness.conductor.safe_mode.reason is None


def test_a_conductor_whose_lease_was_forgotten_is_no_loss(harness: ConductorHarness) -> None:
    """Its row in `workers` is removed an hour after its lease has ended; its counter stays."""
    harness.now += 3 * 3600
    other = harness.start("two")
    harness.tick(other)
    other.collaborators.purge.purge()
    harness.tick(harness.conductor, CONFIRM)
    assert record(harness).safe_since is None
    assert harness.conductor.safe_mode.reason is None


# -- conductors that have started since -----------------------------------------------------------------------------------


def test_a_new_process_notices_it_by_its_file(harness: ConductorHarness, file: Path, tmp_path: Path) -> None:
    first = harness.start("two", Witness(tmp_path / "witness"))
    harness.tick(first, 10)
    restore_older(harness, file, lambda: harness.tick(first, 10))
    again = harness.start("two", Witness(tmp_path / "witness"))
    assert again.safe_mode.reason == LOST
    confirmed(harness, again)
    assert record(harness).safe_reason == LOST


@pytest.mark.parametrize("binary", ["minova-compute", "minova-scheduler"])
def test_a_new_process_learns_it_from_a_service_that_registers(
    harness: ConductorHarness, file: Path, binary: str
) -> None:
    witnessed: list[WitnessRecord] = []
    restore_older(harness, file, lambda: witnessed.append(seen_by(harness.conductor)))
    new = harness.start("two")
    assert new.safe_mode.reason is None
    service = Service(
        uuid=named(f"service {binary}"),
        host="a",
        binary=binary,
        topic=binary.removeprefix("minova-"),
        seen=witnessed[0],
    )
    answer = new.register_service(CTX, service=service)
    assert answer.cloud is not None
    assert answer.cloud.safe_mode == LOST
    confirmed(harness, new)
    details = record(harness).safe_details
    assert details is not None
    assert details.startswith(f"{binary} of a: change ")


def test_a_new_process_learns_it_from_a_heartbeat(harness: ConductorHarness, file: Path) -> None:
    witnessed: list[WitnessRecord] = []
    restore_older(harness, file, lambda: witnessed.append(seen_by(harness.conductor)))
    new = harness.start("two")
    answer = new.heartbeat(CTX, host="a", binary="minova-compute")
    assert answer.cloud is not None
    assert not is_shown(witnessed[0], answer.cloud)
    new.service_has_seen(CTX, host="a", binary="minova-compute", seen=witnessed[0])
    confirmed(harness, new)
    answer = new.heartbeat(CTX, host="a", binary="minova-compute")
    assert answer.cloud is not None
    assert answer.cloud.safe_mode == LOST


def test_a_new_process_learns_it_from_an_api(harness: ConductorHarness, file: Path) -> None:
    witnessed: list[WitnessRecord] = []
    restore_older(harness, file, lambda: witnessed.append(seen_by(harness.conductor)))
    new = harness.start("two")
    new.api_has_seen(CTX, place="controller", seen=witnessed[0])
    confirmed(harness, new)
    assert record(harness).safe_reason == LOST


def test_an_hour_later_it_is_still_noticed(harness: ConductorHarness, file: Path) -> None:
    """New conductors count on, each with a counter of its own: none of them comes to show what was lost."""
    witnessed: list[WitnessRecord] = []
    restore_older(harness, file, lambda: witnessed.append(seen_by(harness.conductor)))
    new = harness.start("two")
    for _ in range(60):
        harness.tick(new, 60)
    assert record(harness).safe_since is None
    new.service_has_seen(CTX, host="a", binary="minova-compute", seen=witnessed[0])
    confirmed(harness, new)
    assert record(harness).safe_reason == LOST


# -- the end ----------------------------------------------------------------------------------------------------------------


def test_it_ends_by_itself_when_all_hosts_have_reported(harness: ConductorHarness, file: Path) -> None:
    restore_older(harness, file)
    confirmed(harness)
    before = record(harness)
    harness.now += 1
    report(harness, "a", "b")
    harness.tick(harness.conductor)
    assert record(harness).safe_since is not None
    report(harness, "c")
    harness.tick(harness.conductor)
    harness.tick(harness.conductor)
    assert record(harness).safe_since is None
    assert record(harness).history != before.history
    assert harness.create()


def test_a_report_from_before_does_not_count(harness: ConductorHarness, file: Path) -> None:
    report(harness, "a", "b", "c")
    restore_older(harness, file)
    confirmed(harness)
    harness.tick(harness.conductor, 60)
    assert record(harness).safe_since is not None


def test_a_host_that_was_away_is_held_until_it_has_reported(harness: ConductorHarness, file: Path) -> None:
    """The cloud goes on meanwhile."""
    witnessed: list[WitnessRecord] = []
    restore_older(harness, file, lambda: witnessed.append(seen_by(harness.conductor)))
    confirmed(harness)
    harness.db.run(
        lambda session: cloud.end_safe_mode(session, record(harness), harness.db.now(), forced=True, without=["a"])
    )
    harness.tick(harness.conductor)
    for _ in range(3):
        answer = harness.conductor.service_has_seen(CTX, host="a", binary="minova-compute", seen=witnessed[0])
        harness.tick(harness.conductor, CONFIRM)
        assert answer is not None
        assert answer.safe_mode == LOST
    assert harness.conductor.safe_mode.reason is None
    report(harness, "a")
    answer = harness.conductor.service_has_seen(CTX, host="a", binary="minova-compute", seen=witnessed[0])
    assert answer is not None
    assert answer.safe_mode is None
    assert learned(witnessed[0], answer).history == record(harness).history


def test_a_backup_from_before_an_end_of_safe_mode_is_noticed(harness: ConductorHarness, file: Path) -> None:
    backups.take(file, file.with_suffix(".first"))
    restore_older(harness, file)
    confirmed(harness)
    report(harness, "a", "b", "c")
    harness.tick(harness.conductor)
    harness.tick(harness.conductor)
    seen_before = seen_by(harness.conductor)
    backups.restore(file.with_suffix(".first"), file)
    new = harness.start("two")
    new.api_has_seen(CTX, place="controller", seen=seen_before)
    confirmed(harness, new)
    assert record(harness).safe_details == (
        f"minova-api of controller: the database does not know the history {seen_before.history}"
    )
    harness.now += 1
    report(harness, "a", "b", "c")
    for _ in range(3):
        harness.tick(new, CONFIRM)
    assert (record(harness).safe_since, new.safe_mode.reason) == (None, None)


# -- another database ---------------------------------------------------------------------------------------------------------


def change_identity(file: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(statement)
    return content(file)


def content(file: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(file)) as connection:
        return [(line,) for line in connection.iterdump()]


@pytest.mark.parametrize("statement", ["UPDATE cloud SET uuid = 'other'", "DELETE FROM cloud"])
def test_a_running_conductor_writes_nothing_to_another_database(
    harness: ConductorHarness, file: Path, tmp_path: Path, statement: str
) -> None:
    conductor = harness.start("two", Witness(tmp_path / "witness"))
    harness.tick(conductor, 10)
    before = change_identity(file, statement)
    with pytest.raises(errors.ServiceUnavailable):
        conductor.worker.renew()
    for task in conductor.periodic_tasks():
        if task.in_safe_mode:
            try:
                task.work()
            except errors.ServiceUnavailable:
                continue
    with pytest.raises(errors.ServiceUnavailable):
        conductor.heartbeat(CTX, host="a", binary="minova-compute", down_reason="libvirtd is away")
    with pytest.raises(errors.ServiceUnavailable):
        conductor.register_service(
            CTX, service=Service(uuid=named("x"), host="x", binary="minova-compute", topic="compute")
        )
    assert content(file) == before
