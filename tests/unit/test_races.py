"""A transaction that loses a race is repeated, with what it lacked; any other error is raised at once."""

from collections.abc import Callable

import pytest

from minova import errors
from minova.races import Race, Races, repeat_lost


class Missing(Exception):
    pass


class Changed(Exception):
    pass


def losing(*conflicts: Exception) -> Callable[[], int]:
    """Returns a transaction that raises these conflicts, one at each try, and then returns the number of tries."""
    left = list(conflicts)

    def attempt() -> int:
        if left:
            raise left.pop(0)
        return len(conflicts) + 1

    return attempt


def test_the_next_try_has_what_the_first_one_lacked() -> None:
    prepared: list[Exception] = []
    races: Races = [Race(Missing, prepared.append), Race(Changed)]
    lost = Missing("group")
    assert (repeat_lost(losing(Changed(), lost, Changed()), races), prepared) == (4, [lost])


def test_each_race_has_tries_of_its_own() -> None:
    races: Races = [Race(Missing, tries=2), Race(Changed, tries=2)]
    assert repeat_lost(losing(Missing(), Changed()), races) == 3


def test_the_last_try_raises_the_conflict_itself() -> None:
    last = Missing()
    with pytest.raises(Missing) as raised:
        repeat_lost(losing(Missing(), last), [Race(Missing, tries=2)])
    assert raised.value is last


def test_the_last_try_raises_the_error_of_the_race() -> None:
    race: Race[Missing] = Race(Missing, given_up=lambda _: errors.Conflict("exists already"), tries=1)
    with pytest.raises(errors.Conflict, match="exists already"):
        repeat_lost(losing(Missing()), [race])


def test_nothing_is_prepared_after_the_last_try() -> None:
    prepared: list[Exception] = []
    with pytest.raises(Missing):
        repeat_lost(losing(Missing(), Missing()), [Race(Missing, prepared.append, tries=2)])
    assert len(prepared) == 1


def test_an_error_of_the_preparation_ends_the_tries() -> None:
    def refuse(_: Exception) -> None:
        raise errors.Forbidden("quota")

    with pytest.raises(errors.Forbidden, match="quota"):
        repeat_lost(losing(Missing()), [Race(Missing, refuse)])


def test_any_other_error_is_raised_at_once() -> None:
    with pytest.raises(Changed):
        repeat_lost(losing(Changed(), Changed()), [Race(Missing)])
