"""One phase of a move on its host."""

from typing import cast

import pytest

from minova import errors
from minova.compute.instances.domains import Domains
from minova.compute.moves.phases import Phase
from minova.compute.moves.runner import MoveRunner
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.objects.servers.instance import Instance
from minova.objects.servers.migration import Migration, MigrationType
from minova.objects.servers.moves import MoveMessage, MovePhase, PhaseKey, PhaseResult
from minova.virt.driver.domains import DomainDriver
from tests.fakes.computes import CTX, FLAVOR

UUID = "5b7bbb3f-71b0-4a66-a6b5-97a5b2a5a5f5"
MOVE = MoveMessage(
    migration=Migration(
        uuid="m",
        instance_uuid=UUID,
        migration_type=MigrationType.MIGRATION,
        source_compute="a",
        source_node="a",
        dest_compute="b",
        dest_node="b",
        old_flavor=FLAVOR,
        new_flavor=FLAVOR,
    ),
    instance=Instance(uuid=UUID, display_name="web", flavor=FLAVOR),
    phase=MovePhase.RELEASE,
)


class Conductor:
    """`begun`: how often a phase may begin, or show a sign of life."""

    def __init__(self, begun: int = 1000) -> None:
        self.begun = begun
        self.kinds: list[str] = []

    def begin_phase(self, ctx: RequestContext, phase: PhaseKey, host: str) -> None:
        self.begun -= 1
        if self.begun < 0:
            raise errors.StaleAttempt("the move has left this phase")

    def phase_ended(self, ctx: RequestContext, phase: PhaseKey, host: str, result: PhaseResult) -> bool:
        self.kinds.append(result.kind)
        return True


def runner_of(conductor: Conductor, phase: Phase, noted: list[MoveMessage]) -> MoveRunner:
    return MoveRunner(
        "a",
        cast(ConductorApi, conductor),
        Domains(cast(DomainDriver, object())),
        {MovePhase.RELEASE: phase},
        {MovePhase.RELEASE: lambda ctx, move: noted.append(move)},
        given_up={},
    )


@pytest.mark.parametrize("is_deleted", [False, True])
def test_bug_source_counts_a_move_whose_server_is_deleted_during_its_release(is_deleted: bool) -> None:
    noted: list[MoveMessage] = []

    def release(ctx: RequestContext, move: MoveMessage, check: object) -> PhaseResult:
        if is_deleted:
            runner.cancel(UUID)
        return PhaseResult()

    runner = runner_of(Conductor(), release, noted)
    runner.run(CTX, MOVE)
    assert noted == ([] if is_deleted else [MOVE])


@pytest.mark.parametrize(
    ("error", "begun", "kinds"),
    [
        (errors.DisksOfAnotherHost("of host old"), 1, ["DisksOfAnotherHost"]),
        (errors.GuestIsNewer("of attempt 3"), 1, ["GuestIsNewer"]),
        # As of a token of an image: the conductor still wants the phase.
        (errors.StaleAttempt("host a has no instance i"), 2, ["Conflict"]),
        (errors.StaleAttempt("the move has left this phase"), 1, []),
    ],
)
def test_bug_phase_that_another_fence_refused_was_never_reported(
    error: errors.MinovaError, begun: int, kinds: list[str]
) -> None:
    """Only the fence of the phase itself ends it without a report: the guest may be off already."""

    def release(ctx: RequestContext, move: MoveMessage, check: object) -> PhaseResult:
        raise error

    conductor = Conductor(begun)
    runner_of(conductor, release, []).run(CTX, MOVE)
    assert conductor.kinds == kinds


def test_phase_of_a_deleted_server_is_not_reported() -> None:
    def release(ctx: RequestContext, move: MoveMessage, check: object) -> PhaseResult:
        runner.cancel(UUID)
        raise errors.StaleAttempt("the server is being deleted")

    conductor = Conductor()
    runner = runner_of(conductor, release, [])
    runner.run(CTX, MOVE)
    assert conductor.kinds == []
