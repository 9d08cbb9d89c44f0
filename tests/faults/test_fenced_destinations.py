"""A host that is forced down gets no server, although its compute is alive and reports: the server may be evacuated from there at once,
and would run twice.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import select

from minova import errors
from minova.conductor.moves.start import StartMoves
from minova.context import RequestContext
from minova.db.models import Task
from minova.objects.actions.moves import MoveRequest
from minova.objects.servers.migration import Hold
from minova.objects.servers.states import PowerState
from tests.faults.cloud import LARGER, Cloud
from tests.faults.mover import Mover
from tests.faults.restores import remove_held_copies
from tests.faults.test_bug_moves import phase
from tests.faults.test_crash_table import STABLE_WITHIN, state_of, wait_until
from tests.faults.test_evacuation import dead_host, evacuate, finished, force, host_of, migrations, power_cut

pytestmark = pytest.mark.timeout(300)
CTX = RequestContext(request_id="req-forced", user_id="u", project_id="p", is_admin=True)
UNAVAILABLE = "Compute service of {} is unavailable at this time."


@pytest.fixture
def mover(mover: Mover) -> Mover:
    for driver in mover.cloud.drivers.values():
        driver.between_rounds = lambda: mover.world.run(1.0)
    return mover


def to(host: str) -> dict[str, Any]:
    return msgspec.to_builtins(MoveRequest(host=host, force=True))  # type: ignore[no-any-return]


def live_migrate(mover: Mover, host: str) -> None:
    mover.cloud.conductor.start_action(CTX, instance_uuid=mover.uuid, action="live_migrate", arguments=to(host))


def take_down(mover: Mover, host: str, how: str) -> None:
    if how == "silent":
        mover.world.keep_down([host], math.inf)
        mover.world.run(120.0)
    else:
        force(mover.cloud, host, down=True)


def require_as_before(mover: Mover) -> None:
    assert mover.state == ("active", None, mover.source)
    assert mover.domains() == {mover.source: PowerState.RUNNING}
    assert set(mover.holders()) == {"instance"}


# -- before a move ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["silent", "forced down"])
def test_bug_a_forced_live_migration_went_to_a_host_that_is_down(mover: Mover, how: str) -> None:
    take_down(mover, mover.other, how)
    refusal = UNAVAILABLE.format(mover.other)
    with pytest.raises(errors.BadRequest, match=refusal):
        mover.cloud.conductor.preview_move(
            CTX, instance_uuid=mover.uuid, action="live_migrate", arguments=to(mover.other)
        )
    with pytest.raises(errors.BadRequest, match=refusal):
        live_migrate(mover, mover.other)
    assert mover.migration() is None
    require_as_before(mover)


def test_bug_a_host_that_is_forced_down_while_the_move_is_requested_got_the_server(
    mover: Mover, monkeypatch: pytest.MonkeyPatch
) -> None:
    preview = StartMoves.preview

    def fence(*arguments: Any) -> Any:
        answer = preview(*arguments)
        force(mover.cloud, mover.other, down=True)
        return answer

    monkeypatch.setattr(StartMoves, "preview", fence)
    with pytest.raises(errors.BadRequest, match=UNAVAILABLE.format(mover.other)):
        live_migrate(mover, mover.other)
    assert mover.migration() is None
    require_as_before(mover)


@pytest.mark.parametrize("how", ["silent", "forced down"])
def test_bug_a_forced_evacuation_went_to_a_host_that_is_down(tmp_path: Path, how: str) -> None:
    cloud, uuid, source = dead_host(tmp_path)
    try:
        other = min(host for host in cloud.hosts if host != source)
        if how == "silent":
            power_cut(cloud, other)
            cloud.world.run(120.0)
        else:
            force(cloud, other, down=True)
        with pytest.raises(errors.BadRequest, match=UNAVAILABLE.format(other)):
            evacuate(cloud, uuid, host=other, force=True)
        assert state_of(cloud, uuid) == ("active", None)
        assert (host_of(cloud, uuid), migrations(cloud, uuid)) == (source, [])
    finally:
        cloud.world.close()


# -- during a move ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "at"),
    [
        *(("resize", at) for at in ("claim", "export", "import", "release")),
        *(("live_migrate", at) for at in ("describe", "check", "prepare", "migrate", "land", "hold")),
    ],
)
def test_bug_a_destination_that_is_forced_down_before_a_phase_got_the_server(mover: Mover, kind: str, at: str) -> None:
    there = mover.other
    mover.ask(kind, LARGER if kind == "resize" else None)
    mover.wait(lambda: phase(mover) == at, step=0.001)
    force(mover.cloud, there, down=True)
    mover.wait(seconds=300.0)
    assert mover.state == ("active", None, mover.source)
    assert mover.domains()[mover.source] is PowerState.RUNNING
    assert mover.domains().get(there) is not PowerState.RUNNING
    assert mover.migration().status == "error"
    force(mover.cloud, there, down=False)
    mover.wait(lambda: mover.migration().cleanup_host is None, 90.0)
    require_as_before(mover)
    mover.require_sound()


# The part of the driver that works in each phase, and the side on which it does.
WORK = {
    "export": ("resize", "source", "export_disks"),
    "import": ("resize", "destination", "import_disks"),
    "release": ("resize", "source", "stop_export"),
    "check": ("live_migrate", "destination", "check_live"),
    "prepare": ("live_migrate", "destination", "prepare_live"),
    "migrate": ("live_migrate", "source", "live_migrate"),
    "land": ("live_migrate", "destination", "await_guest"),
    "hold": ("live_migrate", "source", "hold_disks"),
}


@pytest.mark.parametrize("at", WORK)
def test_bug_a_destination_that_is_forced_down_while_a_host_works_got_the_server(mover: Mover, at: str) -> None:
    """Its compute reports the phase as done all the same."""
    there = mover.other
    kind, side, name = WORK[at]
    driver = mover.cloud.drivers[there if side == "destination" else mover.source]
    work: Callable[..., Any] = getattr(driver, name)

    def after_fence(*arguments: Any, **named: Any) -> Any:
        setattr(driver, name, work)
        force(mover.cloud, there, down=True)
        return work(*arguments, **named)

    setattr(driver, name, after_fence)
    mover.ask(kind, LARGER if kind == "resize" else None)
    mover.wait(seconds=300.0)
    assert mover.state == ("active", None, mover.source)
    assert mover.domains()[mover.source] is PowerState.RUNNING
    assert mover.domains().get(there) is not PowerState.RUNNING
    assert mover.migration().status == "error"
    force(mover.cloud, there, down=False)
    mover.wait(lambda: mover.migration().cleanup_host is None, 90.0)
    require_as_before(mover)
    mover.require_sound()


def test_a_live_migration_is_aborted_when_its_destination_is_forced_down(mover: Mover) -> None:
    rounds: list[int] = []

    def run_on() -> None:
        rounds.append(1)
        mover.world.run(1.0)
        if len(rounds) == 3:
            force(mover.cloud, mover.other, down=True)

    source = mover.cloud.drivers[mover.source]
    source.live_rounds, source.between_rounds = 1000, run_on
    mover.ask("live_migrate")
    mover.wait(lambda: len(rounds) >= 3 and mover.is_at_rest(), step=0.5)
    assert len(rounds) < 10
    assert mover.migration().status == "error"
    require_as_before(mover)


def runs_there(mover: Mover) -> None:
    """A live migration whose guest runs at its destination, which is forced down, and not at its source, whose report was lost."""
    there = mover.other
    source = mover.cloud.drivers[mover.source]

    def leave() -> None:
        mover.cloud.drivers[there].turn(mover.uuid, PowerState.RUNNING)
        source.turn(mover.uuid, PowerState.SHUTDOWN)
        force(mover.cloud, there, down=True)
        raise errors.HypervisorError("the reply was lost")

    source.between_rounds = leave
    mover.ask("live_migrate")
    mover.wait(lambda: phase(mover) == "look there", 60.0, step=0.1)
    mover.world.run(30.0)
    assert mover.state == ("active", "migrating", mover.source)
    assert mover.domains() == {mover.source: PowerState.SHUTDOWN, there: PowerState.RUNNING}


def test_a_guest_that_runs_on_a_host_that_is_forced_down_is_not_started_elsewhere(mover: Mover) -> None:
    """The move waits until the two agree: here the host is up again."""
    there = mover.other
    runs_there(mover)
    force(mover.cloud, there, down=False)
    mover.wait(seconds=120.0)
    assert mover.state == ("active", None, there)
    assert mover.domains() == {there: PowerState.RUNNING}
    mover.require_sound()


def test_bug_forced_down_destination_that_says_that_the_guest_runs_there_halted_the_source_s(mover: Mover) -> None:
    """The source runs it, so that nothing is started. A destination that tells the truth pauses its copy, which is held."""
    there = mover.other

    def fail() -> None:
        mover.cloud.drivers[there].turn(mover.uuid, PowerState.RUNNING)
        force(mover.cloud, there, down=True)
        raise errors.HypervisorError("the reply was lost")

    mover.cloud.drivers[mover.source].between_rounds = fail
    mover.ask("live_migrate")
    mover.wait(seconds=120.0)
    assert mover.state == ("active", None, mover.source)
    assert mover.domains()[mover.source] is PowerState.RUNNING
    assert (mover.migration().status, mover.migration().hold) == ("error", Hold.LAST)
    force(mover.cloud, there, down=False)
    mover.world.run(90.0)
    assert mover.domains() == {mover.source: PowerState.RUNNING, there: PowerState.PAUSED}
    mover.cloud.drivers[there].turn(mover.uuid, PowerState.SHUTDOWN)
    remove_held_copies(mover.cloud)
    mover.wait(lambda: mover.migration().cleanup_host is None, 90.0)
    require_as_before(mover)
    mover.require_sound()


def test_a_guest_that_ran_on_a_host_that_is_off_now_is_the_source_s(mover: Mover) -> None:
    there = mover.other
    runs_there(mover)
    power_cut(mover.cloud, there)
    mover.wait(seconds=120.0)
    assert mover.state[1:] == (None, mover.source)
    assert there not in {host for host, state in mover.domains().items() if state is PowerState.RUNNING}


# -- builds -----------------------------------------------------------------------------------------------------------------


def build_host(cloud: Cloud, uuid: str) -> str | None:
    """Returns the host to which the build of the server is committed."""
    with cloud.db.read() as session:
        return session.scalar(select(Task.host).where(Task.instance_uuid == uuid, Task.step == "build"))


def test_bug_a_host_that_is_forced_down_before_it_builds_an_evacuated_server_ran_it(tmp_path: Path) -> None:
    cloud, uuid, source = dead_host(tmp_path, hosts=4)
    try:
        evacuate(cloud, uuid)
        while (first := build_host(cloud, uuid)) is None:
            cloud.world.run(0.001)
        assert host_of(cloud, uuid) == source
        force(cloud, first, down=True)
        assert wait_until(cloud, lambda: finished(cloud, uuid) and host_of(cloud, uuid) != source, STABLE_WITHIN)
        assert host_of(cloud, uuid) not in {source, first}
        assert cloud.running() == {(host_of(cloud, uuid), uuid)}
    finally:
        cloud.world.close()
