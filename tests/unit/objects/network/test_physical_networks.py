"""Physical networks as traits: one for each segment, and none for two."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minova.objects.network.physical_networks import TRAIT_PREFIX, require_segments, segment_of, trait_of
from minova.objects.requests.request_spec import PlacementFilter
from minova.objects.requests.resource_request import is_custom

NAMES = st.from_regex(r"[A-Za-z0-9_.-]{1,64}", fullmatch=True)


@pytest.mark.parametrize(
    ("network", "segment"),
    [
        (("local", None, None), None),
        (("flat", "dc1", None), "dc1"),
        (("vlan", "dc1", 100), "dc1.100"),
        (("flat", None, None), None),
    ],
)
def test_segments(network: tuple[str, str | None, int | None], segment: str | None) -> None:
    assert segment_of(*network) == segment


def test_a_plain_name_has_novas_trait() -> None:
    assert trait_of("dc1") == "CUSTOM_PHYSNET_DC1"
    assert trait_of("public_2") == "CUSTOM_PHYSNET_PUBLIC_2"


@given(NAMES, NAMES)
def test_every_segment_has_a_trait_of_its_own_that_placement_takes(one: str, other: str) -> None:
    assert is_custom(trait_of(one))
    assert trait_of(one).startswith(TRAIT_PREFIX)
    assert (trait_of(one) == trait_of(other)) == (one == other)


@pytest.mark.parametrize("pair", [("dc1", "DC1"), ("dc.1", "dc-1"), ("dc1.100", "dc1_100"), ("a.b", "a_b")])
def test_names_that_look_alike_are_told_apart(pair: tuple[str, str]) -> None:
    assert trait_of(pair[0]) != trait_of(pair[1])


def test_the_segments_of_a_request_replace_those_before() -> None:
    first = require_segments(PlacementFilter(required_traits=("COMPUTE_NODE",)), ["dc1", "dc1"])
    assert first == PlacementFilter(required_traits=("COMPUTE_NODE", "CUSTOM_PHYSNET_DC1"), segments=("dc1",))
    assert require_segments(first, ["dc2"]) == PlacementFilter(
        required_traits=("COMPUTE_NODE", "CUSTOM_PHYSNET_DC2"), segments=("dc2",)
    )
    assert require_segments(first, []) == PlacementFilter(required_traits=("COMPUTE_NODE",))
