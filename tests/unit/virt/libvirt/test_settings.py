"""Options that cannot work on a host stop the compute at its start, with their name."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from oslo_config import cfg

from minova import conf as configuration
from minova.conf.libvirt import uri_of
from minova.errors import InvalidConfiguration
from minova.virt.libvirt.inventory.capabilities import Capabilities
from minova.virt.libvirt.inventory.domain_capabilities import GuestOffer
from minova.virt.libvirt.inventory.memory_encryption import MemoryEncryption
from minova.virt.libvirt.settings import settings_from
from minova.virt.libvirt.xml.host_settings import HostSettings

HOST = Capabilities(arch="x86_64", supported_instances=(("x86_64", "qemu", "hvm"), ("x86_64", "kvm", "hvm")))


def conf(**options: Any) -> cfg.ConfigOpts:
    loaded_conf = configuration.load([], "test", files=[])
    for name, value in options.items():
        group, _, option = name.rpartition("__")
        loaded_conf.set_override(option, value, group=group or None)
    return loaded_conf


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
        ({"libvirt__cpu_model_extra_flags": ["pcid", "a/b"]}, "[libvirt] cpu_model_extra_flags = a/b"),
        (
            {"libvirt__cpu_mode": "none", "libvirt__cpu_model_extra_flags": ["pcid"]},
            "[libvirt] cpu_model_extra_flags: cpu_mode = none",
        ),
        ({"libvirt__sysinfo_serial": "hardware"}, "[libvirt] sysinfo_serial = hardware: libvirt does not name"),
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
    libvirt_settings = settings(vcpu_pin_set="0-3,^1", libvirt__hw_machine_type=["x86_64=q35"], vnc__enabled=True)
    assert libvirt_settings.pinned == frozenset({0, 2, 3})
    assert libvirt_settings.machine_types == {"x86_64": "q35"}
    assert libvirt_settings.vnc_listen == "127.0.0.1"
    assert settings().vnc_listen is None


@pytest.mark.parametrize(
    ("source", "of_system", "of_hardware", "number"),
    [
        ("unique", "4711", "0815", None),
        ("none", "4711", "0815", ""),
        ("os", "4711", "0815", "4711"),
        ("hardware", "4711", "0815", "0815"),
        ("auto", "4711", "0815", "4711"),
        ("auto", None, "0815", "0815"),
    ],
)
def test_the_serial_number_of_guests(
    tmp_path: Path, source: str, of_system: str | None, of_hardware: str, number: str | None
) -> None:
    machine_id = tmp_path / "machine-id"
    if of_system is not None:
        machine_id.write_text(f"{of_system}\n")
    host = msgspec.structs.replace(HOST, uuid=of_hardware)
    settings = settings_from(
        conf(libvirt__sysinfo_serial=source), "hv1", host, frozenset(range(4)), direct_io=True, machine_id=machine_id
    )
    assert settings.serial_number == number


def test_a_missing_serial_number_of_the_system_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidConfiguration, match=r"\[libvirt\] sysinfo_serial = os: .*machine-id is missing or empty"
    ):
        settings_from(
            conf(libvirt__sysinfo_serial="os"),
            "hv1",
            HOST,
            frozenset(range(4)),
            direct_io=True,
            machine_id=tmp_path / "machine-id",
        )


def test_options_of_every_guest() -> None:
    libvirt_settings = settings(
        libvirt__cpu_model_extra_flags=["PCID", "-mtrr"],
        libvirt__rx_queue_size=512,
        libvirt__tx_queue_size=1024,
        libvirt__hw_disk_discard="unmap",
        preallocate_images="space",
        pointer_model="ps2mouse",
    )
    assert (libvirt_settings.cpu_flags, libvirt_settings.rx_queue_size, libvirt_settings.tx_queue_size) == (
        ("pcid", "-mtrr"),
        512,
        1024,
    )
    assert (libvirt_settings.discard, libvirt_settings.native_io, libvirt_settings.pointer_model) == (
        "unmap",
        True,
        "ps2mouse",
    )
    usual = settings()
    assert (usual.cpu_flags, usual.rx_queue_size, usual.discard, usual.native_io) == ((), 0, None, False)
    assert usual.pointer_model == "usbtablet"


def test_memory_is_encrypted_by_kvm_alone() -> None:
    offer = GuestOffer(encryption=MemoryEncryption(cbitpos=47, reduced_bits=1))
    for virt_type, encryption in (("kvm", offer.encryption), ("qemu", None)):
        settings = settings_from(
            conf(libvirt__virt_type=virt_type), "hv1", HOST, frozenset(range(4)), direct_io=True, offer=offer
        )
        assert settings.encryption == encryption
