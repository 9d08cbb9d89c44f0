"""The rate limits of flavors."""

import pytest

from minova.objects.catalogue.guest_hardware import InvalidExtraSpec
from minova.objects.catalogue.guest_limits import GuestLimits, guest_limits

CASES: list[tuple[dict[str, str], GuestLimits | str]] = [
    ({}, GuestLimits()),
    ({"quota:memory_limit": "x", "quota:vif_limit": "y"}, GuestLimits()),
    ({"quota:cpu_shares": "0", "quota:disk_read_bytes_sec": "0"}, GuestLimits()),
    (
        {"quota:cpu_shares": "1024", "quota:cpu_period": "10000", "quota:cpu_quota": "5000"},
        GuestLimits(cpu={"shares": 1024, "period": 10000, "quota": 5000}),
    ),
    (
        {"quota:disk_read_iops_sec": "5", "quota:disk_read_iops_sec_max": "50", "quota:disk_size_iops_sec": "4096"},
        GuestLimits(disk={"read_iops_sec": 5, "read_iops_sec_max": 50, "size_iops_sec": 4096}),
    ),
    (
        {"quota:vif_inbound_average": "7", "quota:vif_outbound_average": "8", "quota:vif_outbound_burst": "9"},
        GuestLimits(inbound={"average": 7}, outbound={"average": 8, "burst": 9}),
    ),
    ({"quota:cpu_shares": "many"}, "cpu_shares: 'many' is not valid: it must be a number"),
    ({"quota:cpu_shares": "9" * 5000}, "cpu_shares: '9"),
    ({"quota:cpu_shares": "\u0663"}, "cpu_shares: "),
    ({"quota:cpu_period": "999"}, "cpu_period: '999' is not valid: it must be from 1000 to 1000000"),
    ({"quota:cpu_quota": "10"}, "cpu_quota: '10' is not valid: it must be from 1000 up, or -1"),
    ({"quota:cpu_quota": "-2"}, "cpu_quota: '-2'"),
    ({"quota:disk_write_bytes_sec": "-1"}, "disk_write_bytes_sec: '-1'"),
    (
        {"quota:disk_total_bytes_sec": "1", "quota:disk_write_bytes_sec": "1"},
        "disk_total_bytes_sec: '1' is not valid: quota:disk_write_bytes_sec is there, too",
    ),
    (
        {"quota:disk_read_bytes_sec_max": "5"},
        "disk_read_bytes_sec_max: '5' is not valid: it needs quota:disk_read_bytes_sec",
    ),
    ({"quota:disk_size_iops_sec": "5"}, "disk_size_iops_sec: '5' is not valid: it needs a limit of operations"),
    ({"quota:vif_inbound_peak": "5"}, "vif_inbound_peak: '5' is not valid: it needs quota:vif_inbound_average"),
]


@pytest.mark.parametrize(("extra_specs", "wanted"), CASES)
def test_limits_or_the_key_that_is_wrong(extra_specs: dict[str, str], wanted: GuestLimits | str) -> None:
    if isinstance(wanted, GuestLimits):
        assert guest_limits(extra_specs) == wanted
        return
    with pytest.raises(InvalidExtraSpec) as caught:
        guest_limits(extra_specs)
    assert f"Flavor extra spec quota:{wanted}" in str(caught.value)
    assert len(str(caught.value)) < 500


LARGEST = 1_000_000_000_000_000
RANGES = {
    "cpu_shares": (1, 262144),
    "cpu_period": (1000, 1_000_000),
    "cpu_quota": (1000, 17_592_186_044_415),
    "disk_read_bytes_sec": (1, LARGEST),
    "vif_inbound_average": (1, LARGEST),
}


@pytest.mark.parametrize("key", RANGES)
def test_a_limit_is_in_libvirts_range(key: str) -> None:
    least, most = RANGES[key]
    for amount in (least, most):
        limits = guest_limits({f"quota:{key}": str(amount)})
        assert amount in {*limits.cpu.values(), *limits.disk.values(), *limits.inbound.values()}
    for amount in (most + 1, -2):
        with pytest.raises(InvalidExtraSpec, match=f"quota:{key}: '{amount}' is not valid"):
            guest_limits({f"quota:{key}": str(amount)})
    if least > 1:
        with pytest.raises(InvalidExtraSpec, match=f"quota:{key}: "):
            guest_limits({f"quota:{key}": str(least - 1)})


def test_no_limit_of_cpu_time_is_minus_one() -> None:
    assert guest_limits({"quota:cpu_quota": "-1"}).cpu == {"quota": -1}


@pytest.mark.parametrize("part", ["read", "write"])
@pytest.mark.parametrize("unit", ["bytes", "iops"])
def test_a_total_excludes_its_parts_of_the_same_unit(part: str, unit: str) -> None:
    other = "iops" if unit == "bytes" else "bytes"
    total, of_part = f"quota:disk_total_{unit}_sec", f"quota:disk_{part}_{unit}_sec"
    with pytest.raises(InvalidExtraSpec, match=f"{of_part} is there, too"):
        guest_limits({total: "5", of_part: "5"})
    assert len(guest_limits({total: "5", f"quota:disk_{part}_{other}_sec": "5"}).disk) == 2


@pytest.mark.parametrize("limit", ["read_iops_sec", "write_iops_sec", "total_iops_sec"])
def test_the_size_of_an_operation_needs_a_limit_of_operations(limit: str) -> None:
    size = {"quota:disk_size_iops_sec": "4096"}
    assert len(guest_limits({**size, f"quota:disk_{limit}": "5"}).disk) == 2
    with pytest.raises(InvalidExtraSpec, match="it needs a limit of operations"):
        guest_limits({**size, "quota:disk_read_bytes_sec": "5"})


def test_a_refusal_repeats_the_beginning_of_a_value() -> None:
    with pytest.raises(InvalidExtraSpec, match=f"cpu_shares: '{'x' * 255}' is not valid"):
        guest_limits({"quota:cpu_shares": "x" * 300})
