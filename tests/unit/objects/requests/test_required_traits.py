"""Traits that a flavor requires, checked before a request is written."""

import pytest

from minova import errors
from minova.objects.catalogue.flavor import Flavor
from minova.objects.requests import required_traits


@pytest.mark.parametrize("specs", [{"trait:HW_CPU_X86_AVX": "perhaps"}, {"trait:NO_SUCH_TRAIT": "required"}])
def test_a_trait_that_no_host_can_have_is_refused(specs: dict[str, str]) -> None:
    flavor = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=64, root_gb=1, extra_specs=specs)
    with pytest.raises(errors.BadRequest):
        required_traits.check(flavor, None)


@pytest.mark.parametrize("specs", [{"resources:VCPU": "two"}, {"resources:NO_SUCH": "1"}, {"resources1:VCPU": "1"}])
def test_a_resource_that_no_host_can_have_is_refused(specs: dict[str, str]) -> None:
    flavor = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=64, root_gb=1, extra_specs=specs)
    with pytest.raises(errors.BadRequest):
        required_traits.check(flavor, None)


def test_a_known_trait_passes() -> None:
    specs = {"trait:HW_CPU_X86_AVX": "required", "trait:CUSTOM_GOLD": "forbidden"}
    required_traits.check(Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=64, root_gb=1, extra_specs=specs), None)
