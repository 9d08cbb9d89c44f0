"""Who counts as dead, by heartbeats alone."""

import pytest

from minova.objects.liveness import silent

DOWN = 60.0
NOW = 1000.0


def cloud(alive: int, dead_at: list[float]) -> dict[int, float]:
    """Ids 0.. are alive at NOW; 100.. were last heard at the given times."""
    return dict.fromkeys(range(alive), NOW) | {100 + number: at for number, at in enumerate(dead_at)}


@pytest.mark.parametrize(
    ("what", "alive", "dead_at", "expected"),
    [
        ("nobody is known", 0, [], 0),
        ("all beat", 5, [], 0),
        ("just within the time", 1, [NOW - DOWN], 0),
        ("one host of two died", 1, [NOW - DOWN - 1], 1),
        ("nine of ten died together: too few to blame the broker", 1, [NOW - 100] * 9, 9),
        ("a third of thirty died together, and no more", 20, [NOW - 100] * 10, 10),
        ("more than a third fell silent together: the broker is the likelier culprit", 20, [NOW - 100] * 11, 0),
        ("as many, but one after the other", 20, [NOW - 100 - 61 * n for n in range(11)], 11),
        ("some died long before the others fell silent", 20, [NOW - 9000] * 2 + [NOW - 100] * 12, 2),
    ],
)
def test_who_counts_as_dead(what: str, alive: int, dead_at: list[float], expected: int) -> None:
    assert len(silent(cloud(alive, dead_at), DOWN)) == expected, what


def test_while_no_conductor_writes_heartbeats_nobody_ages() -> None:
    assert silent({1: 10.0, 2: 12.0, 3: 11.0}, DOWN) == set()
