"""Each filter's sentences: what passes, and in which words the rest is lost. Asked of one host and of a table."""

from typing import Any

import numpy as np
import pytest

from minova import errors
from minova.objects.requests.checks import Check, at_least, at_most, below, enough_free
from minova.scheduler.filters import BaseHostFilter, Filter, PerHostFilter, Verdict, all_of
from minova.scheduler.filters.availability_zone import AvailabilityZoneFilter
from minova.scheduler.filters.compute import ComputeFilter
from minova.scheduler.filters.core import CoreFilter
from minova.scheduler.filters.disk import DiskFilter
from minova.scheduler.filters.image_properties import ImagePropertiesFilter
from minova.scheduler.filters.ram import RamFilter
from minova.scheduler.hosts.record import ImageSupport, ServiceFacts
from tests.unit.scheduler.hosts import CONF, Options, record, spec_of, table_of, zone

Case = tuple[type[Filter], str, dict[str, Any], dict[str, Any], str | None]

SIZES: list[Case] = [
    (RamFilter, "room enough", {}, {"memory_mb": 32768}, None),
    (
        RamFilter,
        "used memory counts",
        {"memory_mb": 6144, "memory_mb_used": 5632},
        {"memory_mb": 2048},
        "free memory 512 MB < requested 2048 MB (limit 6144 MB, used 5632 MB)",
    ),
    (
        RamFilter,
        "the ratio lends memory",
        {"memory_mb": 6144, "memory_mb_used": 5632, "ram_allocation_ratio": 1.5},
        {"memory_mb": 3584},
        None,
    ),
    (
        RamFilter,
        "no ratio makes an instance fit that is larger than the host",
        {"memory_mb": 1024, "ram_allocation_ratio": 10.0},
        {"memory_mb": 2048},
        "memory 1024 MB < requested 2048 MB",
    ),
    (
        RamFilter,
        "a host may be over its limit",
        {"memory_mb": 4096, "memory_mb_used": 5000},
        {"memory_mb": 1},
        "free memory -904 MB < requested 1 MB (limit 4096 MB, used 5000 MB)",
    ),
    (DiskFilter, "room enough", {"local_gb": 10}, {"root_gb": 9, "ephemeral_gb": 1}, None),
    (
        DiskFilter,
        "swap counts, in MB",
        {"local_gb": 10},
        {"root_gb": 10, "swap": 1},
        "disk 10240 MB < requested 10241 MB; free disk 10240 MB < requested 10241 MB (limit 10240 MB, used 0 MB)",
    ),
    (
        DiskFilter,
        "what thin disks may still take counts as used",
        {"local_gb": 100, "free_disk_mb": 5 * 1024},
        {"root_gb": 6},
        "free disk 5120 MB < requested 6144 MB (limit 102400 MB, used 97280 MB)",
    ),
    (
        DiskFilter,
        "the ratio lends disk",
        {"local_gb": 100, "free_disk_mb": 0, "disk_allocation_ratio": 1.1},
        {"root_gb": 10},
        None,
    ),
    (CoreFilter, "vcpus are lent four times over", {"vcpus": 2, "vcpus_used": 6}, {"vcpus": 2}, None),
    (
        CoreFilter,
        "used vcpus count",
        {"vcpus": 2, "vcpus_used": 7},
        {"vcpus": 2},
        "free vcpus 1 < requested 2 (limit 8, used 7)",
    ),
    (
        CoreFilter,
        "no ratio makes an instance fit that has more vcpus than the host",
        {"vcpus": 2},
        {"vcpus": 3},
        "vcpus 2 < requested 3",
    ),
    (CoreFilter, "a host that counts no vcpus passes", {"vcpus": 0}, {"vcpus": 3}, None),
]
SERVICES: list[Case] = [
    (ComputeFilter, "up and enabled", {}, {}, None),
    (
        ComputeFilter,
        "disabled",
        {"service": ServiceFacts(disabled=True, disabled_reason="new disks")},
        {},
        "service disabled: new disks",
    ),
    (ComputeFilter, "forced down", {"service": ServiceFacts(forced_down=True)}, {}, "service forced down"),
    (
        ComputeFilter,
        "its own word",
        {"service": ServiceFacts(down_reason="libvirtd is gone")},
        {},
        "service down: libvirtd is gone",
    ),
    (AvailabilityZoneFilter, "no zone asked for", {"aggregates": (zone("z1"),)}, {}, None),
    (
        AvailabilityZoneFilter,
        "in the zone",
        {"aggregates": (zone("z1"),)},
        {"availability_zone": "z1"},
        None,
    ),
    (
        AvailabilityZoneFilter,
        "a list of zones in the metadata",
        {"aggregates": (zone("z0, z1"),)},
        {"availability_zone": "z1"},
        None,
    ),
    (
        AvailabilityZoneFilter,
        "in another zone",
        {"aggregates": (zone("z2"),)},
        {"availability_zone": "z1"},
        "availability zone z2, requested z1",
    ),
    (AvailabilityZoneFilter, "in the default zone", {}, {"availability_zone": "nova"}, None),
    (
        AvailabilityZoneFilter,
        "not in the default zone once it has its own",
        {"aggregates": (zone("z1"),)},
        {"availability_zone": "nova"},
        "availability zone z1, requested nova",
    ),
]
IMAGES: list[Case] = [
    (ImagePropertiesFilter, "an image without wishes", {"image_support": ImageSupport()}, {}, None),
    (ImagePropertiesFilter, "what the host supports", {}, {"properties": {"hw_architecture": "x86_64"}}, None),
    (ImagePropertiesFilter, "another word for it", {}, {"properties": {"architecture": "AMD64"}}, None),
    (
        ImagePropertiesFilter,
        "what the host does not",
        {},
        {"properties": {"hw_architecture": "aarch64", "hw_vm_mode": "hvm"}},
        "image needs aarch64, hvm, host supports x86_64, qemu, hvm",
    ),
    (
        ImagePropertiesFilter,
        "a host that says nothing",
        {"image_support": ImageSupport()},
        {"properties": {"img_hv_type": "kvm"}},
        "image needs kvm, host supports nothing",
    ),
    (
        ImagePropertiesFilter,
        "one line must have it all",
        {"image_support": ImageSupport(supported_instances=(("x86_64", "kvm", "hvm"), ("i686", "xen", "xen")))},
        {"properties": {"hw_architecture": "x86_64", "img_hv_type": "xapi"}},
        "image needs x86_64, xen, host supports x86_64, kvm, hvm; i686, xen, xen",
    ),
    (
        ImagePropertiesFilter,
        "a version in the range",
        {},
        {"properties": {"img_hv_type": "qemu", "img_hv_requested_version": ">=6.0, <7.10"}},
        None,
    ),
    (
        ImagePropertiesFilter,
        "a version out of it",
        {},
        {"properties": {"img_hv_type": "qemu", "img_hv_requested_version": ">=7.3"}},
        "hypervisor version 7.2.0, image needs >=7.3",
    ),
    (
        ImagePropertiesFilter,
        "a version alone is not looked at",
        {},
        {"properties": {"img_hv_requested_version": ">=99"}},
        None,
    ),
]


@pytest.mark.parametrize(
    ("cls", "sentence", "facts", "wish", "reason"),
    [*SIZES, *SERVICES, *IMAGES],
    ids=[f"{case[0].__name__}: {case[1]}" for case in (*SIZES, *SERVICES, *IMAGES)],
)
def test_filter(
    cls: type[Filter], sentence: str, facts: dict[str, Any], wish: dict[str, Any], reason: str | None
) -> None:
    table, spec, host_filter = table_of(record(**facts)), spec_of(**wish), cls(CONF)
    assert host_filter.refusal_reason(table.host(0), spec) == reason
    verdict = host_filter.filter_table(table, table.memory_mb >= 0, spec)
    assert bool(verdict.passed[0]) == (reason is None)
    if reason is not None:
        assert verdict.reason(0) == reason


def test_a_silent_service_is_lost_with_the_time_of_its_last_word() -> None:
    table = table_of(record(1), record(2), record(3), silent={1: 1_700_000_000.5, 2: 0.0})
    reasons = [ComputeFilter(CONF).refusal_reason(table.host(row), spec_of()) for row in range(3)]
    assert reasons == ["service down since 2023-11-14T22:13:20Z", "service never reported", None]


def test_limits_go_to_the_compute() -> None:
    host = table_of(record(ram_allocation_ratio=1.5, disk_allocation_ratio=2.0)).host(0)
    limits: dict[str, float] = {}
    for cls in (RamFilter, DiskFilter, CoreFilter):
        limits.update(cls(CONF).limits(host))
    assert limits == {"memory_mb": 49152.0, "disk_gb": 1000.0, "vcpu": 64.0}


def test_a_host_without_vcpus_gets_no_vcpu_limit() -> None:
    assert CoreFilter(CONF).limits(table_of(record(vcpus=0)).host(0)) == {}


@pytest.mark.parametrize(
    "properties",
    [{"hw_architecture": "x86"}, {"img_hv_type": "qemu", "img_hv_requested_version": "about 7"}],
    ids=["an architecture that is none", "a malformed version"],
)
def test_a_malformed_image_property_is_an_error_that_names_it(properties: dict[str, str]) -> None:
    with pytest.raises(errors.BadRequest, match=list(properties)[-1]):
        ImagePropertiesFilter(CONF).refusal_reason(table_of(record()).host(0), spec_of(properties=properties))


def test_the_default_architecture_stands_for_images_that_name_none() -> None:
    conf = Options(filter_scheduler=Options(image_properties_default_architecture="aarch64"))
    assert ImagePropertiesFilter(conf).refusal_reason(table_of(record()).host(0), spec_of()) is not None


class EvenFilter(BaseHostFilter):
    """As a user of Nova would have written it."""

    def host_passes(self, host_state: Any, spec_obj: Any) -> bool:
        return bool(
            host_state.free_ram_mb >= spec_obj.flavor.memory_mb
            and host_state.nodename.endswith(("0", "2"))
            and host_state.host
            and host_state.vcpus_total == 16
        )


def test_a_filter_written_for_nova_runs_on_hosts_that_are_left() -> None:
    lifted = PerHostFilter(EvenFilter())
    table = table_of(*(record(number) for number in range(1, 5)))
    verdict = lifted.filter_table(table, table.memory_mb > 0, spec_of())
    assert list(verdict.passed) == [False, True, False, False]
    assert verdict.reason(0) == "EvenFilter rejected the host"
    assert lifted.refusal_reason(table.host(1), spec_of()) is None


@pytest.mark.parametrize(
    ("checks", "kind"),
    [
        ([enough_free("memory", 512, 2048, "MB", limit=6144, used=5632)], "free memory"),
        ([enough_free("VCPU", 0, 2), enough_free("DISK_GB", -3.5, 1)], "free VCPU, free DISK_GB"),
        ([below("instances", 50, 50), below("instances", 60, 60)], "instances"),
        ([at_most("members of the group here:", 2, 1)], "members of the group here:"),
        (
            [Check(False, "requested VCPU", 3, "is no multiple of", "step_size", 2, "")],
            "requested VCPU is no multiple of step_size",
        ),
        ([at_least("vcpus", 4, 2)], ""),
    ],
)
def test_rows_that_fail_alike_have_one_kind_of_reason(checks: list[Check], kind: str) -> None:
    verdict = all_of(checks, 1)
    assert verdict.kinds_of(np.array([0])) == [kind]


def test_a_check_that_all_hosts_fail_leaves_none() -> None:
    verdict = all_of([at_least("vcpus", 4, 2), at_least("vcpus", 4, 5)], 3)
    assert verdict.passed.tolist() == [False] * 3
    assert all_of([at_least("vcpus", 4, 2)], 3).passed.tolist() == [True] * 3


def test_the_kind_of_a_reason_without_numbers_is_the_reason() -> None:
    verdict = Verdict(np.zeros(1, bool), lambda rows: ["the service is disabled: moving 3 racks"] * len(rows))
    assert verdict.kinds_of(np.array([0])) == ["the service is disabled: moving 3 racks"]
