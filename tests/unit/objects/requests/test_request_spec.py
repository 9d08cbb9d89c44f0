"""A request as filters read it."""

from typing import Any

import pytest

from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.requests.legacy_spec import legacy_request_spec
from minova.objects.requests.request_spec import PlacementFilter, RequestSpec
from tests.unit.hardware import guests

FLAVOR = Flavor(flavorid="f", name="f", vcpus=2, memory_mb=512, root_gb=3, ephemeral_gb=4, swap=5)


def spec(**more: Any) -> RequestSpec:
    return RequestSpec(flavor=FLAVOR, **more)


def test_sizes_are_those_of_the_flavor() -> None:
    plain = spec()
    assert (plain.vcpus, plain.memory_mb, plain.root_gb, plain.ephemeral_gb, plain.swap) == (2, 512, 3, 4, 5)
    assert plain.num_instances == 1


def test_resources_are_those_of_the_query_or_the_first_alternative() -> None:
    assert spec().resources == {"VCPU": 2, "MEMORY_MB": 512, "DISK_GB": 8}
    assert spec(numa_topology=guests.guest(guests.pinned(2))).resources["PCPU"] == 2
    assert spec(placement=PlacementFilter(resources={"VGPU": 1})).resources == {"VGPU": 1}


@pytest.mark.parametrize(
    ("hint", "value"), [("x", "x"), (["x"], "x"), (["x", "y"], ["x", "y"]), ([], []), (None, None), ("", "")]
)
def test_a_hint_of_one_value_is_that_value(hint: Any, value: Any) -> None:
    assert spec(scheduler_hints={"a": hint}).get_scheduler_hint("a") == value
    assert spec().get_scheduler_hint("a", 7) == 7


def test_a_rebuild_says_so_in_a_hint() -> None:
    assert spec(scheduler_hints={"_nova_check_type": ["rebuild"]}).is_rebuild
    assert not spec(scheduler_hints={"_nova_check_type": ["resize"]}).is_rebuild
    assert not spec().is_rebuild


def test_the_legacy_form_has_novas_names() -> None:
    legacy = legacy_request_spec(spec(project_id="p", image=Image(id="i")))
    assert legacy["image"]["id"] == "i"
    assert (legacy["num_instances"], legacy["instance_type"]["vcpus"]) == (1, 2)
    assert legacy["instance_properties"]["memory_mb"] == 512
    assert legacy["instance_properties"]["project_id"] == "p"
    assert legacy_request_spec(spec())["image"] == {}
