import pytest

from minova.errors import InvalidConfiguration
from minova.hardware import cpu_spec
from minova.hardware.cpu_sets import cpu_sets

HOST = frozenset(range(8))


@pytest.mark.parametrize(
    ("pin", "shared", "dedicated", "expected"),
    [
        (None, None, None, ("0-7", "0-7", False, (8, 0))),
        ("0-3", None, None, ("0-3", "0-3", True, (4, 0))),
        (None, "0-3,^1", None, ("0,2-3", "", True, (3, 0))),
        (None, None, "4-7", ("", "4-7", True, (0, 4))),
        (None, "0-1", "4-7", ("0-1", "4-7", True, (2, 4))),
        ("2-5", "0-1", None, ("2-5", "2-5", True, (4, 0))),
    ],
)
def test_who_may_run_where(
    pin: str | None, shared: str | None, dedicated: str | None, expected: tuple[object, ...]
) -> None:
    sets = cpu_sets(pin, shared, dedicated, HOST)
    assert (cpu_spec.write(sets.shared), cpu_spec.write(sets.dedicated), sets.limited, sets.counted) == expected


@pytest.mark.parametrize(
    ("pin", "shared", "dedicated", "expected"),
    [
        (None, None, None, None),
        ("2-5", None, None, None),
        (None, None, "4-7", None),
        ("2-5", "0-1", None, "0-1"),
        (None, "0-1", "4-7", "0-1"),
    ],
)
def test_emulator_threads_share_the_shared_set_alone(
    pin: str | None, shared: str | None, dedicated: str | None, expected: str | None
) -> None:
    emulator = cpu_sets(pin, shared, dedicated, HOST).emulator
    assert (None if emulator is None else cpu_spec.write(emulator)) == expected


@pytest.mark.parametrize(
    ("pin", "shared", "dedicated", "why"),
    [
        ("0-1", None, "2-3", r"vcpu_pin_set and \[compute\] cpu_dedicated_set exclude each other"),
        (None, "0-3", "2-5", r"cpu_shared_set and \[compute\] cpu_dedicated_set have CPUs 2-3 in common"),
        (None, "0-9", None, r"cpu_shared_set = 0-9: the host has no CPU 8-9, only 0-7"),
        (None, None, "8", r"cpu_dedicated_set = 8: the host has no CPU 8"),
        ("0,x", None, None, r"vcpu_pin_set = 0,x: 'x' is neither a CPU"),
        (None, "^1", None, r"cpu_shared_set = \^1: '\^1' names no CPU"),
    ],
)
def test_sets_that_cannot_be_are_told_by_their_option(
    pin: str | None, shared: str | None, dedicated: str | None, why: str
) -> None:
    with pytest.raises(InvalidConfiguration, match=why):
        cpu_sets(pin, shared, dedicated, HOST)
