"""Two numbers of 4,300 digits in the properties of an image: their sum has more digits than Python prints, and the API answered 500."""

import pytest

from minova.errors import BadRequest
from minova.hardware.numa_constraints import numa_constraints
from minova.objects.catalogue.flavor import Flavor

LONG = "9" * 4300
CELLS = {"numa_cpus.0": "0", "numa_cpus.1": "1", "numa_mem.0": LONG, "numa_mem.1": LONG}


def flavor(**extra_specs: str) -> Flavor:
    return Flavor(flavorid="1", name="m", vcpus=2, memory_mb=256, root_gb=1, extra_specs=extra_specs)


def test_long_numbers_of_an_image() -> None:
    image = {"hw_numa_nodes": "2", **{f"hw_{name}": value for name, value in CELLS.items()}}
    with pytest.raises(BadRequest, match="hw_numa_"):
        numa_constraints(flavor(), image)


def test_long_numbers_of_a_flavor() -> None:
    specs = {"hw:numa_nodes": "2", **{f"hw:{name}": value for name, value in CELLS.items()}}
    with pytest.raises(BadRequest, match="hw:numa_mem"):
        numa_constraints(flavor(**specs), {})
