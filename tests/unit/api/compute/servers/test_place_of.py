"""The availability zone of a create request."""

import pytest

from minova import errors
from minova.api.compute.servers.placement_request import RequestedPlace, place_of

PLACES = {
    None: RequestedPlace(),
    "": RequestedPlace(),
    "nova": RequestedPlace(zone="nova"),
    "nova:h": RequestedPlace(zone="nova", host="h"),
    "nova:h:n": RequestedPlace(zone="nova", host="h", node="n"),
    "nova::n": RequestedPlace(zone="nova", node="n"),
    ":h": RequestedPlace(host="h"),
}


@pytest.mark.parametrize(("zone", "expected"), PLACES.items())
def test_availability_zone_is_parsed(zone: str | None, expected: RequestedPlace) -> None:
    assert place_of(zone) == expected
    assert place_of(zone).forced == (expected.host is not None or expected.node is not None)


@pytest.mark.parametrize("zone", ["a:b:c:d", "x" * 256, "a\nb"])
def test_malformed_zone_is_refused(zone: str) -> None:
    with pytest.raises(errors.BadRequest, match="availability_zone"):
        place_of(zone)
