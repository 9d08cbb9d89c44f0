"""Chains and weighers by the names of a scenario."""

import pytest

from minova import errors
from minova.scheduler.built_in import FILTERS
from minova.scheduler.extensions import NOVA_ORDER
from minova.simulate.chains import CHAINS, chain, weighers


def test_a_chain_is_named_or_listed() -> None:
    assert chain("default") == list(CHAINS["default"])
    assert chain(["RamFilter", "nova.scheduler.filters.ram_filter.RamFilter", "acme.Filter"]) == [
        "RamFilter",
        "RamFilter",
        "acme.Filter",
    ]
    # Nova has no such filters.
    assert set(FILTERS) - set(chain("all")) == {"LocalDiskFilter", "VGPUFilter"}
    with pytest.raises(errors.BadRequest, match="expected a list or one of all, classic, default, got 'other'"):
        chain("other")


@pytest.mark.parametrize("name", ["all", "nova.scheduler.weights.all_weighers"])
def test_all_weighers_are_in_novas_order(name: str) -> None:
    assert weighers(name) == [*NOVA_ORDER]


def test_one_weigher_is_named() -> None:
    assert weighers("nova.scheduler.weights.ram.RAMWeigher") == ["RAMWeigher"]
    assert weighers("acme.Weigher") == ["acme.Weigher"]
