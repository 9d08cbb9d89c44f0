"""The phases of a cold move on a host whose guest takes its time."""

import threading
from typing import Any

import msgspec
import pytest

from minova import errors
from minova.compute.moves.phases import SIGN_OF_LIFE, ColdPhases
from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.migration import Migration, MigrationType
from minova.objects.servers.moves import MoveMessage, MovePhase
from minova.objects.servers.states import PowerState
from tests.fakes.computes import CTX, FLAVOR, HOST, NODE, Compute

TIMEOUT = 65


class Check:
    """`stale_after`: so many signs of life are accepted."""

    def __init__(self, stale_after: int = 1000) -> None:
        self.cancelled = threading.Event()
        self.calls = 0
        self._stale_after = stale_after

    def __call__(self) -> None:
        self.calls += 1
        if self.calls > self._stale_after:
            raise errors.StaleAttempt("the move has left this phase")


@pytest.fixture
def compute() -> Compute:
    service = Compute(shutdown_timeout=TIMEOUT).start()
    service.boot("i")
    service.hypervisor.shuts_down = False
    return service


def export(compute: Compute, check: Check, dest: str = HOST, after: Flavor = FLAVOR) -> None:
    nothing: Any = None
    phases = ColdPhases(compute.conf, HOST, compute.hypervisor, nothing, nothing, nothing, nothing).phases()
    migration = Migration(
        uuid="m",
        instance_uuid="i",
        migration_type=MigrationType.RESIZE,
        source_compute=HOST,
        source_node=NODE,
        dest_compute=dest,
        dest_node=NODE,
        old_flavor=FLAVOR,
        new_flavor=after,
    )
    move = MoveMessage(migration=migration, instance=compute.conductor.instances["i"], phase=MovePhase.EXPORT)
    phases[MovePhase.EXPORT](CTX, move, check)


def test_bug_a_long_shutdown_of_the_guest_ends_its_move(compute: Compute) -> None:
    """It gave no sign of life until the guest was off: the move was taken for lost when that took longer than `action_timeout`."""
    check = Check()
    export(compute, check)
    assert sum(compute.hypervisor.timeouts) == TIMEOUT
    assert max(compute.hypervisor.timeouts) <= SIGN_OF_LIFE
    assert check.calls >= len(compute.hypervisor.timeouts)
    assert compute.domains() == {"i": PowerState.SHUTDOWN}


def test_a_guest_of_a_move_that_was_taken_back_keeps_running(compute: Compute) -> None:
    with pytest.raises(errors.StaleAttempt):
        export(compute, Check(stale_after=1))
    assert len(compute.hypervisor.timeouts) == 2
    assert compute.domains() == {"i": PowerState.RUNNING}


def test_bug_a_guest_was_shut_down_for_a_move_that_each_host_refuses(
    compute: Compute, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object, *, images: tuple[str, ...]) -> None:
        raise errors.ImageUnacceptable("based on another image")

    monkeypatch.setattr(compute.hypervisor, "require_movable", refuse)
    with pytest.raises(errors.ImageUnacceptable):
        export(compute, Check(), "elsewhere")
    assert compute.hypervisor.timeouts == []
    assert compute.domains() == {"i": PowerState.RUNNING}


@pytest.mark.parametrize("change", [{"memory_mb": 2048}, {"vcpus": 4}, {"swap": 512}])
def test_bug_resize_of_a_server_with_saved_memory_broke_after_the_switch(
    compute: Compute, change: dict[str, int]
) -> None:
    """On one host, where nothing is imported: the server was in ERROR with its new flavor."""
    compute.hypervisor.turn("i", PowerState.SHUTDOWN)
    compute.hypervisor.saved.add("i")
    with pytest.raises(errors.SavedMemoryKept, match="does not fit flavor m1"):
        export(compute, Check(), after=msgspec.structs.replace(FLAVOR, **change))
    export(compute, Check(), after=msgspec.structs.replace(FLAVOR, root_gb=20))


def test_resize_of_a_server_without_saved_memory_goes_on(compute: Compute) -> None:
    compute.hypervisor.shuts_down = True
    export(compute, Check(), after=msgspec.structs.replace(FLAVOR, memory_mb=2048))
    assert compute.domains() == {"i": PowerState.SHUTDOWN}
