"""What a source asks of libvirt while a guest migrates: at the time-out, and for the downtime."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import libvirt
import msgspec
import pytest

from minova.errors import LiveMigrationAborted
from minova.objects.servers.live_migration import GuestSide, LiveDestination, LiveMode, LiveProgress
from minova.virt.libvirt.guest_state import jobs, sides
from minova.virt.libvirt.migration import live_run
from minova.virt.libvirt.migration.live_options import LiveOptions
from minova.virt.libvirt.migration.live_run import LiveRun

pytestmark = pytest.mark.timeout(60)
UUID = "5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11"
SHARED = LiveDestination(
    mode=LiveMode.SHARED, uri="", address="192.0.2.7", tls_name=None, xml="<domain/>", persistent_xml="<domain/>"
)
UNLOCKED = msgspec.structs.replace(SHARED, unlocked=True)
SOON = 0.001  # seconds for each GiB


class Aborted(libvirt.libvirtError):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__("aborted")

    def get_error_code(self) -> int:
        return int(libvirt.VIR_ERR_OPERATION_ABORTED)


class Domain:
    """Migrates until one of `ENDS` is asked of it. `asked`: what was, in this order."""

    ENDS = ("abortJob", "suspend", "migrateStartPostCopy")

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.side = GuestSide.RUNNING
        self.migration: tuple[Any, ...] = ()
        self._ends = threading.Event()

    def XMLDesc(self) -> str:  # noqa: N802
        return "<domain/>"

    def name(self) -> str:
        return "instance-1"

    def state(self) -> tuple[int, int]:
        return libvirt.VIR_DOMAIN_RUNNING, 1

    def migrateToURI3(self, *arguments: Any) -> None:  # noqa: N802
        self.migration = arguments
        assert self._ends.wait(60)
        if "abortJob" in self.asked:
            raise Aborted
        self.side = GuestSide.LEFT

    def jobStats(self, flags: int = 0) -> Mapping[str, Any]:  # noqa: N802
        return {"memory_total": 100, "memory_processed": 50, "downtime": 12}

    def migrateSetMaxDowntime(self, milliseconds: int) -> None:  # noqa: N802
        self.asked.append(milliseconds)

    def end(self) -> None:
        self._ends.set()

    def __getattr__(self, name: str) -> Any:
        if name not in self.ENDS:
            raise AttributeError(name)

        def ask() -> None:
            self.asked.append(name)
            self.end()

        return ask


class Host:
    @contextmanager
    def connection(self, *_: object) -> Iterator[None]:
        yield


@pytest.fixture
def domain(monkeypatch: pytest.MonkeyPatch) -> Domain:
    guest = Domain()
    monkeypatch.setattr(live_run, "require", lambda connection, uuid: guest)
    monkeypatch.setattr(sides, "side_of", lambda of: of.side)
    monkeypatch.setattr(sides, "migrates", lambda of: bool(of.migration) and of.side is GuestSide.RUNNING)
    monkeypatch.setattr(jobs, "running", lambda of: libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT)
    return guest


def run_of(options: LiveOptions, destination: LiveDestination = SHARED) -> LiveRun:
    return LiveRun(cast(Any, Host()), options, UUID, destination, size=0, stays_paused=False)


def ignore(_: LiveProgress) -> None:
    """Ignores the progress."""


def options(**changed: Any) -> LiveOptions:
    """Without steps of the downtime, unless they are wanted."""
    return LiveOptions(**({"timeout": 0, "step_delay": 3600} | changed))


def without_downtimes(domain: Domain) -> list[str]:
    return [request for request in domain.asked if isinstance(request, str)]


def test_a_migration_is_aborted_at_its_time_out(domain: Domain) -> None:
    with pytest.raises(LiveMigrationAborted):
        run_of(options(timeout=SOON)).run(ignore)
    assert without_downtimes(domain) == ["abortJob"]


@pytest.mark.parametrize(
    ("post_copy", "destination", "request_of_libvirt"),
    [
        (False, SHARED, "suspend"),
        (True, SHARED, "migrateStartPostCopy"),
        (True, UNLOCKED, "suspend"),
    ],
)
def test_a_migration_is_forced_at_its_time_out(
    domain: Domain, *, post_copy: bool, destination: LiveDestination, request_of_libvirt: str
) -> None:
    forces = options(timeout=SOON, force_at_timeout=True, post_copy=post_copy)
    outcome = run_of(forces, destination).run(ignore)
    assert without_downtimes(domain) == [request_of_libvirt]
    assert (outcome.downtime_ms, outcome.arrives_paused) == (12, destination.pauses)


def test_a_migration_without_a_time_out_is_left_alone(domain: Domain) -> None:
    rounds: list[LiveProgress] = []

    def end_late(seen: LiveProgress) -> None:
        rounds.append(seen)
        if len(rounds) == 3:
            domain.end()

    run_of(options()).run(end_late)
    assert without_downtimes(domain) == []


def test_the_permitted_downtime_grows_while_the_guest_migrates(domain: Domain) -> None:
    """Of the steps that are due, only the last one is asked for, once."""
    growing = options(downtime_ms=300, steps=2, step_delay=0)
    *_, last = growing.downtimes(0)

    def end_at_last(seen: LiveProgress) -> None:
        if domain.asked[-1:] == [last.milliseconds]:
            domain.end()

    run_of(growing).run(end_at_last)
    assert domain.asked == [last.milliseconds]


def test_only_the_downtime_that_is_due_is_permitted(domain: Domain) -> None:
    rounds: list[LiveProgress] = []

    def end_late(seen: LiveProgress) -> None:
        rounds.append(seen)
        if len(rounds) == 3:
            domain.end()

    growing = options(downtime_ms=400, steps=10)
    run_of(growing).run(end_late)
    assert domain.asked == [next(growing.downtimes(0)).milliseconds]


def test_libvirt_gets_the_flags_and_parameters_of_the_options(domain: Domain) -> None:
    chosen = options(bandwidth=7, auto_converge=True)
    domain.end()
    run_of(chosen).run(ignore)
    assert domain.migration == ("qemu+tcp://192.0.2.7/system", chosen.parameters(SHARED), chosen.flags(SHARED))
    assert chosen.parameters(SHARED)["bandwidth"] == 7


def test_a_migration_that_is_not_wanted_any_more_is_aborted(domain: Domain) -> None:
    class Unwanted(Exception):
        pass

    def refuse(_: LiveProgress) -> None:
        raise Unwanted

    with pytest.raises(Unwanted):
        run_of(options()).run(refuse)
    assert without_downtimes(domain) == ["abortJob"]
