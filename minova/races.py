"""Changes that lose a race against another one, and the loop that repeats them.

The part that can lose states its race: the exception, and what must be read or made anew before the next try. Only this loop
repeats, for transactions of the conductor and for changes that the API asks for.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from minova import errors

T = TypeVar("T")
E = TypeVar("E", bound=Exception)
# Tries while other transactions win the same race.
TRIES = 10


def _nothing(_: Exception) -> None:
    pass


class Race(NamedTuple, Generic[E]):
    """`conflict`: what the attempt raises if another one was first.

    `prepare`: reads or makes what the next try needs. An error that it raises ends the tries.
    `given_up`: returns the error to raise after the last try; None: the last conflict itself is raised.
    """

    conflict: type[E]
    prepare: Callable[[E], None] = _nothing
    given_up: Callable[[E], Exception] | None = None
    tries: int = TRIES


# Another request has changed the resource since it was read.
CHANGED = Race(errors.RevisionNumberConstraintFailed, tries=5)
# The races of one transaction, each with another exception.
Races = Sequence[Race[Any]]


def repeat_lost(attempt: Callable[[], T], races: Races) -> T:
    """Repeats `attempt` while it loses one of the races. Raises every other error at once."""
    conflicts = tuple(race.conflict for race in races)
    lost = dict.fromkeys(conflicts, 0)
    while True:
        try:
            return attempt()
        except conflicts as error:
            race = next(race for race in races if isinstance(error, race.conflict))
            lost[race.conflict] += 1
            if lost[race.conflict] < race.tries:
                race.prepare(error)
            elif race.given_up is None:
                raise
            else:
                raise race.given_up(error) from error
