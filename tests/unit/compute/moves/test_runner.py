"""One phase of a move on its host."""

from typing import cast

import pytest

from minova.compute.instances.domains import Domains
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
    def begin_phase(self, ctx: RequestContext, phase: PhaseKey, host: str) -> None: ...

    def phase_ended(self, ctx: RequestContext, phase: PhaseKey, host: str, result: PhaseResult) -> bool:
        return True


@pytest.mark.parametrize("is_deleted", [False, True])
def test_bug_source_counts_a_move_whose_server_is_deleted_during_its_release(is_deleted: bool) -> None:
    noted: list[MoveMessage] = []

    def release(ctx: RequestContext, move: MoveMessage, check: object) -> PhaseResult:
        if is_deleted:
            runner.cancel(UUID)
        return PhaseResult()

    runner = MoveRunner(
        "a",
        cast(ConductorApi, Conductor()),
        Domains(cast(DomainDriver, object())),
        {MovePhase.RELEASE: release},
        {MovePhase.RELEASE: lambda ctx, move: noted.append(move)},
        given_up={},
    )
    runner.run(CTX, MOVE)
    assert noted == ([] if is_deleted else [MOVE])
