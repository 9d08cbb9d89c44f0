"""Options that cannot work on a host stop the compute at its start, with their name."""

from typing import Any

import pytest
from oslo_config import cfg

from minova import conf as configuration
from minova.errors import InvalidConfiguration
from minova.virt.libvirt.inventory.capabilities import Capabilities
from minova.virt.libvirt.settings import settings_from, uri_of
from minova.virt.libvirt.xml.guest_xml import HostSettings

HOST = Capabilities(arch="x86_64", supported_instances=(("x86_64", "qemu", "hvm"), ("x86_64", "kvm", "hvm")))


def conf(**options: Any) -> cfg.ConfigOpts:
    made = configuration.load([], "test", files=[])
    for name, value in options.items():
        group, _, option = name.rpartition("__")
        made.set_override(option, value, group=group or None)
    return made


def settings(*, direct_io: bool = True, **options: Any) -> HostSettings:
    return settings_from(conf(**options), "hv1", HOST, frozenset(range(4)), direct_io=direct_io)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"libvirt__virt_type": "test"}, "[libvirt] virt_type = test"),
        ({"libvirt__cpu_mode": "custom"}, "[libvirt] cpu_mode = custom"),
        ({"libvirt__hw_machine_type": ["q35"]}, "[libvirt] hw_machine_type = q35"),
        ({"libvirt__disk_cachemodes": ["file=fast"]}, "[libvirt] disk_cachemodes = file=fast"),
        ({"vcpu_pin_set": "0-7"}, "[DEFAULT] vcpu_pin_set = 0-7: the host has no CPU 4-7, only 0-3"),
        ({"vcpu_pin_set": "a"}, "[DEFAULT] vcpu_pin_set = a: 'a' is neither"),
    ],
)
def test_what_cannot_work_is_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        settings(**options)
    assert words in str(caught.value)


def test_the_type_of_guests_is_the_settings_and_not_the_machines() -> None:
    assert settings().virt_type == "kvm"
    assert settings(libvirt__virt_type="qemu").virt_type == "qemu"


@pytest.mark.parametrize(
    ("modes", "direct_io", "cache"),
    [
        ([], True, "none"),
        ([], False, "writeback"),
        (["block=none"], False, "writeback"),
        (["file=unsafe"], True, "unsafe"),
        (["file=default"], False, "writeback"),
    ],
)
def test_the_cache_mode_suits_the_file_system(modes: list[str], direct_io: bool, cache: str) -> None:
    assert settings(libvirt__disk_cachemodes=modes, direct_io=direct_io).disk_cache == cache


@pytest.mark.parametrize(
    ("options", "uri"),
    [
        ({}, "qemu:///system"),
        ({"libvirt__virt_type": "test"}, "test:///default"),
        ({"libvirt__connection_uri": "qemu+tcp://hv2/system"}, "qemu+tcp://hv2/system"),
    ],
)
def test_where_libvirt_is(options: dict[str, Any], uri: str) -> None:
    assert uri_of(conf(**options)) == uri


def test_pins_and_screens() -> None:
    found = settings(vcpu_pin_set="0-3,^1", libvirt__hw_machine_type=["x86_64=q35"], vnc__enabled=True)
    assert found.pinned == frozenset({0, 2, 3})
    assert found.machine_types == {"x86_64": "q35"}
    assert found.vnc_listen == "127.0.0.1"
    assert settings().vnc_listen is None
