"""Filters, weighers and drivers by their names, the names of entry points and dotted paths."""

from pathlib import Path

import pytest

from minova import errors
from minova.scheduler.drivers.filter_scheduler import FilterScheduler
from minova.scheduler.extensions import DRIVERS, FILTERS, find, load_filters, load_weighers
from minova.scheduler.filters import PerHostFilter
from minova.scheduler.weights import PerHostWeigher
from tests.functional.scheduler.cloud import conf_of


def test_the_default_chain_in_its_order() -> None:
    assert [host_filter.name for host_filter in load_filters(conf_of())] == [
        "AvailabilityZoneFilter",
        "ComputeFilter",
        "RamFilter",
        "DiskFilter",
        "CoreFilter",
        "ComputeCapabilitiesFilter",
        "ImagePropertiesFilter",
        "ServerGroupAntiAffinityFilter",
        "ServerGroupAffinityFilter",
        "PciPassthroughFilter",
        "NUMATopologyFilter",
    ]


def test_all_weighers_are_summed_in_the_order_of_nova() -> None:
    assert [weigher.name for weigher in load_weighers(conf_of())] == [
        "CrossCellWeigher",
        "NumInstancesWeigher",
        "MetricsWeigher",
        "CPUWeigher",
        "BuildFailureWeigher",
        "ServerGroupSoftAffinityWeigher",
        "ServerGroupSoftAntiAffinityWeigher",
        "RAMWeigher",
        "DiskWeigher",
        "PCIWeigher",
        "ImagePropertiesWeigher",
        "IoOpsWeigher",
        "HypervisorVersionWeigher",
    ]


def test_a_dotted_path_takes_its_place_in_the_chain() -> None:
    path = "tests.unit.scheduler.test_filters.EvenFilter"
    loaded = load_filters(conf_of(filter_scheduler__enabled_filters=["RamFilter", path, "DiskFilter"]))
    assert [host_filter.name for host_filter in loaded] == ["RamFilter", "EvenFilter", "DiskFilter"]
    assert isinstance(loaded[1], PerHostFilter)


def test_another_package_adds_filters_by_entry_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One that cannot be loaded is logged; one with the name of a built-in filter does not replace it."""
    metadata = tmp_path / "outsider-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: outsider\nVersion: 1\n")
    even = "tests.unit.scheduler.test_filters:EvenFilter"
    lines = (
        f"EvenFilter = {even}",
        f"RamFilter = {even}",
        "BrokenFilter = no.such.module:BrokenFilter",
        "WorseFilter = worse:X",
    )
    (tmp_path / "worse.py").write_text("X = undefined")
    (metadata / "entry_points.txt").write_text("\n".join((f"[{FILTERS}]", *lines, "")))
    monkeypatch.syspath_prepend(tmp_path)
    loaded = load_filters(conf_of(filter_scheduler__enabled_filters=["EvenFilter", "RamFilter"]))
    assert [type(host_filter).__name__ for host_filter in loaded] == ["PerHostFilter", "RamFilter"]
    assert "BrokenFilter" in caplog.text
    assert "WorseFilter of the group minova.scheduler.filters cannot be loaded: NameError" in caplog.text


def test_weighers_by_name_and_path() -> None:
    path = "tests.unit.scheduler.test_weights.PreferLastWeigher"
    loaded = load_weighers(conf_of(filter_scheduler__weight_classes=["RAMWeigher", path]))
    assert [weigher.name for weigher in loaded] == ["RAMWeigher", "PreferLastWeigher"]
    assert isinstance(loaded[1], PerHostWeigher)


def test_multipliers_are_options() -> None:
    loaded = load_weighers(conf_of(filter_scheduler__ram_weight_multiplier=-3.0))
    chosen = {"CPUWeigher", "IoOpsWeigher", "RAMWeigher"}
    assert {weigher.name: weigher.multiplier for weigher in loaded if weigher.name in chosen} == {
        "CPUWeigher": 1.0,
        "IoOpsWeigher": -1.0,
        "RAMWeigher": -3.0,
    }


def test_the_driver_by_name_and_by_path() -> None:
    assert find(DRIVERS, "filter_scheduler", "o") is FilterScheduler
    assert find(DRIVERS, "minova.scheduler.drivers.filter_scheduler.FilterScheduler", "o") is FilterScheduler


@pytest.mark.parametrize(
    "name",
    ["RamFiltre", "tests.nowhere.RamFilter", "tests.unit.scheduler.hosts.RamFilter", "tests.unit.scheduler.hosts.CONF"],
)
def test_an_unknown_name_stops_with_option_and_name(name: str) -> None:
    with pytest.raises(errors.InvalidConfiguration, match=rf"\[filter_scheduler\] enabled_filters.*{name}"):
        load_filters(conf_of(filter_scheduler__enabled_filters=[name]))


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(errors.InvalidConfiguration, match="CPUWeigher, CrossCellWeigher, DiskWeigher"):
        load_weighers(conf_of(filter_scheduler__weight_classes=["RAM"]))
