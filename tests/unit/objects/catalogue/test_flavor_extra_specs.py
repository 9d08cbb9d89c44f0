"""Which extra specs a flavor may have, from microversion 2.86."""

import pytest

from minova.objects.catalogue.flavor_extra_specs import check
from minova.objects.catalogue.guest_hardware import InvalidExtraSpec


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("colour", "blue"),
        ("mine:colour", "blue"),
        ("hw:watchdog_action", "reset"),
        ("hw:boot_menu", "True"),
        ("hw:numa_cpus.0", "0-3,^2"),
        ("hw:mem_page_size", "2MB"),
        ("hw_rng:rate_bytes", "2048"),
        ("os:secure_boot", "required"),
        ("quota:cpu_quota", "-1"),
        ("quota:disk_read_iops_sec_max", "100"),
        ("quota:vif_shares_level", "high"),
        ("resources:VCPU", "2"),
        ("resources1:CUSTOM_GOLD", "1"),
        ("trait:HW_CPU_X86_AVX2", "required"),
        ("trait_a:CUSTOM_X", "forbidden"),
        ("capabilities:cpu_info:arch", "s== x86_64"),
        ("aggregate_instance_extra_specs:ssd", "true"),
        ("pci_passthrough:alias", "gpu:1, nic:2"),
    ],
)
def test_what_nova_takes_is_taken(key: str, value: str) -> None:
    check(key, value)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("hw:watchdog_action", "bark", "known are disabled, none, pause, poweroff, reset"),
        ("hw:watchdog", "reset", "there is no such extra spec"),
        ("quota:cpu_shares", "-1", "it must be at least 0"),
        ("quota:cpu_shares", "many", "it must be a whole number"),
        ("quota:cpu_share", "1", "there is no such extra spec"),
        ("hw:boot_menu", "perhaps", "it must be true or false"),
        ("hw:redirected_usb_ports", "16", "it must be at most 15"),
        ("hw:numa_cpus.0", "a", "it must have the form"),
        ("hw:numa_nodes", "9" * 5000, "it must be a whole number"),
        ("resources:GOLD", "1", "there is no such extra spec"),
        ("trait:CUSTOM_X", "wanted", "known are forbidden, required"),
        ("capabilities:colour", "blue", "there is no such extra spec"),
    ],
)
def test_what_nova_refuses_is_refused_with_its_key(key: str, value: str, words: str) -> None:
    with pytest.raises(InvalidExtraSpec, match=f"Flavor extra spec {key}: .*{words}") as caught:
        check(key, value)
    assert len(str(caught.value)) < 1000


LEAST_AND_MOST = {
    "hw:numa_nodes": (1, 10**19),
    "hw:serial_port_count": (0, 10**19),
    "hw:redirected_usb_ports": (0, 15),
    "quota:cpu_quota": (-(10**19), 10**19),
    "quota:memory_shares_share": (0, 10**19),
}


@pytest.mark.parametrize("key", LEAST_AND_MOST)
def test_numbers_have_their_bounds(key: str) -> None:
    least, most = LEAST_AND_MOST[key]
    for number in (least, most):
        check(key, str(number))
    for number in (least - 1, 10 * most + 10):
        if number >= 0 or key != "quota:cpu_quota":
            with pytest.raises(InvalidExtraSpec):
                check(key, str(number))


def test_a_refusal_repeats_the_beginning_of_key_and_value() -> None:
    with pytest.raises(InvalidExtraSpec, match=f"Flavor extra spec hw:{'k' * 252}: '{'v' * 255}' is not valid"):
        check("hw:" + "k" * 300, "v" * 300)
