"""Which domains may be removed: a table of sentences, and the law that no domain is removed without proof."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minova.objects.servers.states import PowerState, VmState
from minova.objects.unexpected import removal_rules
from minova.objects.unexpected.removal_rules import DomainRow, DomainVerdict, must_pause, verdict

EXPECTED, REMOVE, NO_ROW, NEWER, MISPLACED, *_ = DomainVerdict


def row(vm_state: VmState = VmState.ACTIVE, host: str | None = "other", **more: Any) -> DomainRow:
    return DomainRow(attempt=2, host=host, vm_state=vm_state, **more)


# (sentence, the domain's attempt, is it on?, row, verdict)
CASES: list[tuple[str, int | None, bool, DomainRow | None, DomainVerdict]] = [
    ("no row proves nothing", 2, True, None, NO_ROW),
    ("on the host of its row", 2, True, row(is_here=True), EXPECTED),
    ("a later attempt than its row on the same host", 3, True, row(is_here=True), NEWER),
    ("deleted", 2, True, row(deleted=True), REMOVE),
    ("an earlier attempt of a deleted instance", 1, True, row(deleted=True), REMOVE),
    ("a later attempt of a deleted instance", 3, True, row(deleted=True), NEWER),
    ("deleted, and the mark names no attempt", None, True, row(deleted=True), REMOVE),
    ("a later attempt runs elsewhere", 1, True, row(), REMOVE),
    ("a later attempt is being built elsewhere", 1, True, row(VmState.BUILDING, idle=False), REMOVE),
    ("the same attempt runs elsewhere, as the row says", 2, True, row(), MISPLACED),
    ("an action goes on elsewhere", 2, True, row(idle=False), MISPLACED),
    ("a migration took it away by a later attempt", 1, True, row(left_before=2), REMOVE),
    ("a migration took it away, and another one brought it back", 2, True, row(left_before=2), MISPLACED),
    ("an evacuation gave up this attempt", 3, True, row(given_up=frozenset({3})), REMOVE),
    ("the last of the attempts that were given up", 2, True, row(given_up=frozenset({2})), REMOVE),
    ("an attempt that was given up elsewhere", 2, True, row(is_here=True, given_up=frozenset({2})), EXPECTED),
    ("it is being evacuated", 1, True, row(is_leaving=True), EXPECTED),
    ("it was evacuated, and deleted since", 1, True, row(is_leaving=True, deleted=True), REMOVE),
    ("the mark names no attempt", None, True, row(), MISPLACED),
    ("building, and never tried when the row was written", 3, True, row(VmState.BUILDING, None, idle=False), NEWER),
    ("building elsewhere by the same attempt", 2, True, row(VmState.BUILDING, None, idle=False), MISPLACED),
    (
        "the attempt failed, and the next host is looked for",
        2,
        True,
        row(VmState.BUILDING, None, schedules=True),
        REMOVE,
    ),
    (
        "a build after the backup, and the row looks for a host",
        3,
        True,
        row(VmState.BUILDING, None, schedules=True),
        NEWER,
    ),
    ("every attempt failed", 2, True, row(VmState.ERROR, None), REMOVE),
    ("a failed instance is being deleted", 2, True, row(VmState.ERROR, None, idle=False), MISPLACED),
    ("offloaded", 2, False, row(VmState.SHELVED_OFFLOADED, None), REMOVE),
    ("offloaded, as the row says, and it runs", 2, True, row(VmState.SHELVED_OFFLOADED, None), MISPLACED),
    ("unshelved since", 3, True, row(VmState.SHELVED_OFFLOADED, None), NEWER),
    (
        "being unshelved, and the old guest runs",
        2,
        True,
        row(VmState.SHELVED_OFFLOADED, None, schedules=True),
        MISPLACED,
    ),
    ("its last action is not recorded", 2, True, row(is_here=True, knows_action=False), NEWER),
    (
        "its last action is not recorded, and another host has a later attempt",
        1,
        False,
        row(knows_action=False),
        MISPLACED,
    ),
    ("... and this host, too", 1, False, row(is_here=True, knows_action=False), NEWER),
    ("deleted after an action that is not recorded", 2, True, row(deleted=True, knows_action=False), REMOVE),
]


@pytest.mark.parametrize(
    ("attempt", "is_on", "row", "expected"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_verdicts(attempt: int | None, is_on: bool, row: DomainRow | None, expected: DomainVerdict) -> None:
    state = PowerState.RUNNING if is_on else PowerState.SHUTDOWN
    assert verdict(attempt, state, row) is expected


@pytest.mark.parametrize(
    ("is_stray", "attempt", "is_on", "row"),
    [
        (True, 1, True, row(is_leaving=True)),
        (True, 3, True, row(is_leaving=True, given_up=frozenset({3}))),
        (False, 3, True, row(is_leaving=True)),  # newer than its row
        (False, 1, False, row(is_leaving=True)),
        (False, 1, True, row(is_leaving=True, is_here=True)),
        (False, 1, True, row(is_leaving=True, moves=True)),
        (True, 1, True, row(VmState.RESIZED, moves=True, is_here=True, is_kept=True)),
        (True, 1, True, row(VmState.RESIZED, moves=True, is_here=True, is_kept=True, idle=False)),
        (False, 1, False, row(VmState.RESIZED, moves=True, is_here=True, is_kept=True)),
        (False, 1, True, row(moves=True, is_here=True)),  # a guest that moves live may run on both sides
        (True, 1, True, row(runs_there=True, knows_action=False)),
        (False, 1, True, row(knows_action=False)),  # whose server is off
        (False, 1, True, row(runs_there=True, knows_action=False, idle=False)),
        (False, 2, True, row(runs_there=True)),  # of the same attempt
        (False, None, True, row(runs_there=True)),
        (False, 1, True, row(is_leaving=True, deleted=True)),  # removed
        (False, 2, True, row()),  # without any proof
        (False, 2, True, None),
    ],
)
def test_a_guest_that_runs_beside_the_one_of_the_rows_host_is_paused(
    is_stray: bool, attempt: int, is_on: bool, row: DomainRow | None
) -> None:
    assert must_pause(attempt, PowerState.RUNNING if is_on else PowerState.SHUTDOWN, row) is is_stray


@pytest.mark.parametrize(
    ("is_stray", "state", "was_stray", "row"),
    [
        (True, PowerState.RUNNING, False, row(moves=True, is_here=True, is_kept=True)),
        (True, PowerState.PAUSED, False, row(moves=True, is_here=True, is_kept=True)),
        (False, PowerState.SHUTDOWN, True, row(moves=True, is_here=True, is_kept=True)),
        (False, PowerState.RUNNING, True, row(moves=True, is_here=True)),
        (True, PowerState.RUNNING, False, row(is_leaving=True)),
        (True, PowerState.PAUSED, True, row(is_leaving=True)),
        (False, PowerState.PAUSED, False, row(is_leaving=True)),  # it has arrived so, and waits for its removal
        (False, PowerState.RUNNING, False, row(runs_there=True)),  # misplaced
    ],
)
def test_a_copy_that_a_move_has_left_is_a_stray_until_it_is_off(
    is_stray: bool, state: PowerState, was_stray: bool, row: DomainRow
) -> None:
    assert removal_rules.is_stray(1, state, row, was_stray=was_stray) is is_stray


ACCEPTED: list[tuple[str, int, bool, DomainRow, DomainVerdict]] = [
    (
        "a later attempt is being built on the same host",
        1,
        True,
        row(VmState.BUILDING, is_here=True, idle=False),
        NEWER,
    ),
    ("on the host of its row", 2, True, row(is_here=True), EXPECTED),
    ("a later attempt is being built elsewhere", 1, True, row(VmState.BUILDING, idle=False), MISPLACED),
    ("the row was restored to its scheduling", 2, True, row(VmState.BUILDING, None, schedules=True), MISPLACED),
    ("the row was restored to an error", 2, True, row(VmState.ERROR, None), MISPLACED),
    ("deleted", 1, True, row(deleted=True), REMOVE),
    ("offloaded since", 2, False, row(VmState.SHELVED_OFFLOADED, None), REMOVE),
    ("a migration took it away by a later attempt", 1, True, row(left_before=2), REMOVE),
    ("a migration took it away, and another one brought it back", 2, True, row(left_before=2), MISPLACED),
    ("an evacuation gave up this attempt", 2, True, row(given_up=frozenset({2})), MISPLACED),
]


@pytest.mark.parametrize(
    ("attempt", "is_on", "row", "expected"), [case[1:] for case in ACCEPTED], ids=[case[0] for case in ACCEPTED]
)
def test_an_attempt_whose_success_was_accepted_was_not_given_up(
    attempt: int, is_on: bool, row: DomainRow, expected: DomainVerdict
) -> None:
    state = PowerState.RUNNING if is_on else PowerState.SHUTDOWN
    assert verdict(attempt, state, row, accepted=True) is expected


ROWS = st.builds(
    DomainRow,
    attempt=st.integers(0, 3),
    host=st.sampled_from([None, "other"]),
    vm_state=st.sampled_from(list(VmState)),
    idle=st.booleans(),
    deleted=st.booleans(),
    is_here=st.booleans(),
    schedules=st.booleans(),
    is_kept=st.booleans(),
    is_leaving=st.booleans(),
    left_before=st.integers(0, 4),
    given_up=st.frozensets(st.integers(0, 4)),
    knows_action=st.booleans(),
)


@given(attempt=st.integers(0, 3), state=st.sampled_from(list(PowerState)), row=ROWS)
def test_a_domain_that_is_newer_than_its_row_is_never_removed(attempt: int, state: PowerState, row: DomainRow) -> None:
    if attempt > row.attempt and attempt not in row.given_up:
        assert verdict(attempt, state, row) is NEWER


@given(attempt=st.integers(0, 3), state=st.sampled_from(list(PowerState)), row=ROWS)
def test_a_domain_where_its_row_says_is_removed_only_after_a_deletion(
    attempt: int, state: PowerState, row: DomainRow
) -> None:
    if row.is_here and not row.deleted:
        assert verdict(attempt, state, row) in {EXPECTED, NEWER}
