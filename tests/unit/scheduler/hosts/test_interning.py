import pytest

from minova.scheduler.hosts import interning
from minova.scheduler.hosts.interning import Interner


def values(*numbers: int) -> tuple[int, ...]:
    """A tuple of its own for each call."""
    return numbers


def test_equal_values_are_one_object_and_those_of_other_types_are_others() -> None:
    interner = Interner()
    first = interner.intern((1, 2))
    assert interner.intern(values(1, 2)) is first
    assert interner.intern(True) is True
    assert interner.intern(1) is not True
    stats = interner.intern_mapping({"b": 1, "a": 2})
    assert interner.intern_mapping({"a": 2, "b": 1}) is stats
    assert interner.intern_mapping({"a": 2}) == {"a": 2}


def test_with_too_many_values_all_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interning, "MAX_INTERNED", 2)
    interner = Interner()
    first = interner.intern((0,))
    interner.intern((1,))
    assert interner.intern(values(0)) is first
    interner.intern((2,))
    again = interner.intern(values(0))
    assert again == first
    assert again is not first
