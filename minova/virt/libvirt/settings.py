"""The options of the libvirt driver, checked against the host before anything is built on them."""

from oslo_config import cfg

from minova.errors import InvalidConfiguration
from minova.hardware import cpuset
from minova.virt.libvirt.capabilities import Capabilities
from minova.virt.libvirt.guest_xml import HostSettings

CACHE_MODES = ("none", "writethrough", "writeback", "directsync", "unsafe", "default")
_URIS = {"test": "test:///default"}


def uri_of(conf: cfg.ConfigOpts) -> str:
    """Where libvirt is."""
    return str(conf.libvirt.connection_uri or _URIS.get(conf.libvirt.virt_type, "qemu:///system"))


def pinned_cpus(conf: cfg.ConfigOpts, of_host: frozenset[int]) -> frozenset[int] | None:
    """The CPUs of vcpu_pin_set; `None`: all. InvalidConfiguration: it is no set, or names what the host has not."""
    if not conf.vcpu_pin_set:
        return None
    option = f"[DEFAULT] vcpu_pin_set = {conf.vcpu_pin_set}"
    try:
        pinned = cpuset.parse(conf.vcpu_pin_set)
    except ValueError as error:
        raise InvalidConfiguration(f"{option}: {error}") from error
    missing = pinned - of_host
    if missing:
        raise InvalidConfiguration(
            f"{option}: the host has no CPU {cpuset.write(missing)}, only {cpuset.write(of_host)}"
        )
    return pinned


def settings_from(
    conf: cfg.ConfigOpts, host: str, capabilities: Capabilities, cpus: frozenset[int], *, direct_io: bool
) -> HostSettings:
    """What holds for every guest of this host. InvalidConfiguration names the option that cannot work here."""
    virt_type = conf.libvirt.virt_type
    if not capabilities.supports(virt_type):
        there = sorted({hypervisor for _, hypervisor, _ in capabilities.supported_instances})
        raise InvalidConfiguration(
            f"[libvirt] virt_type = {virt_type}: the hypervisor at {uri_of(conf)} has {', '.join(there) or 'none'}"
        )
    if conf.libvirt.cpu_mode == "custom" and not conf.libvirt.cpu_models:
        raise InvalidConfiguration("[libvirt] cpu_mode = custom: cpu_models must name one")
    return HostSettings(
        host=host,
        arch=capabilities.arch,
        virt_type=virt_type,
        cpu_mode=conf.libvirt.cpu_mode,
        cpu_models=tuple(conf.libvirt.cpu_models),
        machine_types=_pairs("hw_machine_type", conf.libvirt.hw_machine_type),
        disk_cache=_cache_mode(conf, direct_io),
        pinned=pinned_cpus(conf, cpus),
        vnc_listen=str(conf.vnc.server_listen) if conf.vnc.enabled else None,
    )


def _cache_mode(conf: cfg.ConfigOpts, direct_io: bool) -> str:
    mode = _pairs("disk_cachemodes", conf.libvirt.disk_cachemodes).get("file", "default")
    if mode not in CACHE_MODES:
        raise InvalidConfiguration(f"[libvirt] disk_cachemodes = file={mode}: not one of {', '.join(CACHE_MODES)}")
    if mode != "default":
        return mode
    # As in Nova: QEMU refuses none where the file system has no O_DIRECT.
    return "none" if direct_io else "writeback"


def _pairs(option: str, items: list[str]) -> dict[str, str]:
    pairs = {}
    for item in items:
        key, found, value = item.partition("=")
        if not (key.strip() and found and value.strip()):
            raise InvalidConfiguration(f"[libvirt] {option} = {item}: it must be NAME=VALUE")
        pairs[key.strip()] = value.strip()
    return pairs
