"""Who counts as dead, by heartbeats alone."""

import pytest

from minova.objects.hosts.liveness import judge

DOWN = 60.0
NOW = 1000.0
CONDUCTORS = range(1000, 1100)


def cloud(alive: int, dead_at: list[float], conductors: int = 0) -> dict[int, float]:
    """Ids 0.. are alive at NOW, 1000.. are conductors alive at NOW; 100.. were last heard at the given times."""
    living = [*range(alive), *CONDUCTORS[:conductors]]
    return dict.fromkeys(living, NOW) | {100 + number: at for number, at in enumerate(dead_at)}


@pytest.mark.parametrize(
    ("what", "seen", "expected"),
    [
        ("no service is known", cloud(0, []), 0),
        ("all beat", cloud(5, []), 0),
        ("just within the time", cloud(1, [NOW - DOWN]), 0),
        ("one host of two died", cloud(1, [NOW - DOWN - 1]), 1),
        ("nine of ten died together: too few to blame the broker", cloud(0, [NOW - 100] * 9, 1), 9),
        ("a third of thirty died together, and no more", cloud(0, [NOW - 100] * 10, 20), 10),
        ("more than a third fell silent together, and only conductors are heard", cloud(0, [NOW - 100] * 11, 20), 0),
        ("as many, but one after the other", cloud(0, [NOW - 100 - 61 * n for n in range(11)], 20), 11),
        ("some died long before the others fell silent", cloud(0, [NOW - 9000] * 2 + [NOW - 100] * 12, 20), 2),
    ],
)
def test_which_services_count_as_dead(what: str, seen: dict[int, float], expected: int) -> None:
    assert len(judge(seen, DOWN, CONDUCTORS).down) == expected, what


def test_no_service_ages_while_no_conductor_writes_heartbeats() -> None:
    assert judge({1: 10.0, 2: 12.0, 3: 11.0}, DOWN).down == frozenset()


@pytest.mark.parametrize(
    ("what", "seen", "down", "in_doubt"),
    [
        ("ten of twenty-nine are more than a third", cloud(0, [NOW - 100] * 10, 19), 0, 10),
        ("no service is silent yet, though many are overdue", cloud(0, [NOW - 40] * 11, 20), 0, 0),
        ("the overdue count with the silent", cloud(0, [NOW - 61] * 6 + [NOW - 31] * 5, 20), 0, 6),
        ("those that are just not overdue do not", cloud(0, [NOW - 61] * 6 + [NOW - 30] * 5, 20), 6, 0),
        ("messages come: one was heard half a down time later", cloud(1, [NOW - 100] * 11, 20), 11, 0),
        ("one that was heard no later is no witness", {**cloud(0, [NOW - 100] * 11, 20), 5: NOW - 70}, 0, 12),
        ("the doubt lasts five down times", cloud(0, [NOW - 300] * 11, 20), 0, 11),
        ("and no longer", cloud(0, [NOW - 301] * 11, 20), 11, 0),
        ("a down time apart is together", cloud(0, [NOW - 100] * 10 + [NOW - 160], 20), 0, 11),
        ("more is not", cloud(0, [NOW - 100] * 10 + [NOW - 161], 18), 1, 10),
    ],
)
def test_which_services_are_in_doubt(what: str, seen: dict[int, float], down: int, in_doubt: int) -> None:
    verdict = judge(seen, DOWN, CONDUCTORS)
    assert (len(verdict.down), len(verdict.in_doubt)) == (down, in_doubt), what
