"""Address groups: ranges, each once."""

from typing import Any

import pytest

from minova import errors
from minova.objects.network.address_groups import (
    MAX_RANGES_OF_GROUP,
    AddressGroup,
    added,
    canonical,
    of_version,
    removed,
)

BOTH = ("192.0.2.0/24", "2001:db8::/64")


def group(*addresses: str) -> AddressGroup:
    return AddressGroup(id="g", project_id="p", addresses=addresses)


def test_ranges_have_one_form() -> None:
    assert canonical(["192.0.2.9/24", "192.0.2.1", "192.0.2.0/24", "2001:DB8::1/64"]) == (
        "192.0.2.0/24",
        "192.0.2.1/32",
        "2001:db8::/64",
    )
    assert (of_version(BOTH, 4), of_version(BOTH, 6)) == (BOTH[:1], BOTH[1:])
    assert group().revision_number == 1


@pytest.mark.parametrize(
    ("text", "why"), [("x" * 99, f"'{'x' * 64}' is not a valid IP subnet"), ("fe80::1%eth0", "an address has a zone")]
)
def test_what_is_no_range_is_refused(text: str, why: str) -> None:
    with pytest.raises(errors.BadRequest, match=why):
        canonical([text])


def test_ranges_are_added_and_removed() -> None:
    assert added(group(BOTH[0]), [BOTH[1]]) == BOTH
    assert removed(group(*BOTH), [BOTH[0]]) == BOTH[1:]


def test_what_is_there_already_or_not_there_is_refused() -> None:
    with pytest.raises(errors.AddressesAlreadyExist, match=r"\['192.0.2.0/24'\] already exist in the address group g"):
        added(group(*BOTH), ["10.0.0.0/8", BOTH[0]])
    with pytest.raises(errors.AddressesNotFound, match=r"\['10.0.0.0/8'\] not found in the address group g"):
        removed(group(*BOTH), ["10.0.0.0/8", BOTH[0]])


@pytest.mark.parametrize(("more", "fits"), [(1, True), (2, False)])
def test_a_group_has_so_many_ranges(more: int, fits: bool) -> None:
    full: Any = group(*(f"10.0.{number}.0/24" for number in range(MAX_RANGES_OF_GROUP - 1)))
    new = [f"10.1.{number}.0/24" for number in range(more)]
    if fits:
        assert len(added(full, new)) == 200
        return
    with pytest.raises(errors.BadRequest, match="an address group has 200 at most"):
        added(full, new)
