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
