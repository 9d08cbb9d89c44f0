"""Both hosts of a live migration in doubt are asked what they have of the guest, again and again. A second delivery of an earlier report
counted in a later round: "absent" of the destination, where the guest had arrived meanwhile, beside "paused" of the source resumed the
guest at the source, too.
"""

import pytest

from minova.conductor.moves.in_progress import is_at
from minova.conductor.moves.plan import MovePlan
from minova.objects.servers.instance import Instance
from minova.objects.servers.moves import MoveMessage, MovePhase
from tests.unit.conductor.moves.test_live_plan import FLAVOR, MIGRATION

INSTANCE = Instance(uuid="i", display_name="web", flavor=FLAVOR)


def counts(phase: MovePhase, asked: int | None, now: int) -> bool:
    """Whether a report on a message of round `asked` counts in round `now`."""
    key = MoveMessage(migration=MIGRATION, instance=INSTANCE, phase=phase, round=asked).phase_key
    return is_at(MovePlan(migration_uuid="m", phase=phase, round=now), MIGRATION, "b", key, "b")


@pytest.mark.parametrize("phase", [MovePhase.LOOK, MovePhase.LOOK_THERE])
def test_bug_report_of_an_earlier_round_counted(phase: MovePhase) -> None:
    assert counts(phase, 2, 2)
    assert not counts(phase, 1, 2)


def test_hosts_and_conductors_of_earlier_releases_know_no_rounds() -> None:
    assert counts(MovePhase.LOOK_THERE, None, 2)


def test_other_phases_have_no_rounds() -> None:
    assert counts(MovePhase.ARRIVE, None, 2)
