"""The availability zone of a create request."""

import pytest

from minova import errors
from minova.api.compute.servers.placement_request import Place, place_of

PLACES = {
    None: Place(),
    "": Place(),
    "nova": Place(zone="nova"),
    "nova:h": Place(zone="nova", host="h"),
    "nova:h:n": Place(zone="nova", host="h", node="n"),
    "nova::n": Place(zone="nova", node="n"),
    ":h": Place(host="h"),
}


@pytest.mark.parametrize(("zone", "expected"), PLACES.items())
def test_availability_zone_is_parsed(zone: str | None, expected: Place) -> None:
    assert place_of(zone) == expected
    assert place_of(zone).forced == (expected.host is not None or expected.node is not None)


@pytest.mark.parametrize("zone", ["a:b:c:d", "x" * 256, "a\nb"])
def test_malformed_zone_is_refused(zone: str) -> None:
    with pytest.raises(errors.BadRequest, match="availability_zone"):
        place_of(zone)
