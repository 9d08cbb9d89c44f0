"""What is decided about a guest before its XML is made. Pure."""

import logging
from typing import NamedTuple

import msgspec

from minova.errors import BadRequest, HardwareNotOffered, ImageUnacceptable
from minova.hardware.guest.cpu_topology import CpuTopology, cpu_topology
from minova.hardware.guest.features import GuestFeatures, guest_features
from minova.objects.catalogue.guest_hardware import (
    OPTIONAL,
    Q35,
    REQUIRED,
    GuestHardware,
    guest_hardware,
)
from minova.objects.catalogue.guest_limits import GuestLimits, guest_limits
from minova.objects.catalogue.image_properties import typed
from minova.objects.catalogue.vif_queues import queues_of
from minova.objects.servers.chosen_hardware import MACHINE_TYPE, machine_here, with_choice
from minova.objects.servers.instance import Instance
from minova.virt.libvirt.inventory.capabilities import canonical_arch
from minova.virt.libvirt.xml import numa_xml
from minova.virt.libvirt.xml.host_settings import HostSettings

LOG = logging.getLogger(__name__)
_EMULATED = {"kvm", "qemu"}
_SCSI, _VIRTIO_SCSI = "scsi", "virtio-scsi"


class Guest(NamedTuple):
    """Decisions about a guest before its XML is made. `machine` None: libvirt chooses. `queues`: the number for each
    interface.
    """

    hardware: GuestHardware
    features: GuestFeatures
    topology: CpuTopology
    limits: GuestLimits
    queues: int
    settings: HostSettings
    arch: str
    machine: str | None
    secure_boot: bool
    emulated: bool
    by_kvm: bool


def guest_of(instance: Instance, settings: HostSettings) -> Guest:
    own_hardware = _hardware(instance)
    hardware = with_choice(own_hardware, instance.system_metadata)
    arch = hardware.arch or canonical_arch(settings.arch)
    recorded_machine = instance.system_metadata.get(MACHINE_TYPE)
    if recorded_machine:
        # Another version of QEMU may lack this version of the machine.
        local_machine = machine_here(recorded_machine, arch, settings.machines.get(arch, frozenset()))
        if local_machine is None:
            LOG.warning(
                "Instance %s has no machine %s here: that of its image is used", instance.uuid, recorded_machine
            )
        hardware = msgspec.structs.replace(hardware, machine_type=local_machine or own_hardware.machine_type)
    machine = hardware.machine_type or settings.machine_types.get(arch)
    secure = hardware.secure_boot == REQUIRED
    if hardware.secure_boot == OPTIONAL:
        secure = hardware.uefi and settings.secure_boot and (machine is None or Q35 in machine)
    if secure and not hardware.machine_type and Q35 not in (machine or ""):
        machine = Q35  # the only machine with secure boot
    features = _features(instance)
    needs_q35 = features.encrypted_memory or (features.iommu_model is not None and arch == "x86_64")
    if needs_q35 and not hardware.machine_type and Q35 not in (machine or ""):
        machine = Q35  # the only machine with an IOMMU, or with encrypted memory
    return Guest(
        hardware=_with_cdrom_bus(hardware, settings.cdrom_bus),
        features=features,
        topology=_topology(instance, settings),
        limits=_limits(instance),
        queues=_queues(instance, hardware, settings),
        settings=settings,
        arch=arch,
        machine=machine,
        secure_boot=secure,
        emulated=settings.virt_type in _EMULATED,
        by_kvm=settings.virt_type == "kvm",
    )


def _with_cdrom_bus(hardware: GuestHardware, bus: str | None) -> GuestHardware:
    """The image's choice takes precedence over that of the host. The model that libvirt takes for SCSI is one that few kernels know."""
    if hardware.cdrom_bus is not None or bus is None:
        return hardware
    is_alone = bus == _SCSI and hardware.disk_bus != _SCSI
    model = hardware.scsi_model or (_VIRTIO_SCSI if is_alone else None)
    return msgspec.structs.replace(hardware, cdrom_bus=bus, scsi_model=model)


def require_offered(guest: Guest) -> None:
    hardware, arch, settings = guest.hardware, guest.arch, guest.settings
    if hardware.arch is not None and arch != canonical_arch(settings.arch) and arch not in settings.machines:
        raise HardwareNotOffered(f"hw_architecture {arch} of the image: this host runs no such guests")
    machine = hardware.machine_type
    if machine is not None and machine not in settings.machines.get(arch, frozenset()):
        raise HardwareNotOffered(f"hw_machine_type {machine} of the image: this host has no such machine for {arch}")
    if guest.features.encrypted_memory and settings.encryption is None:
        raise HardwareNotOffered("hw:mem_encryption of the flavor: this host cannot encrypt the memory of guests")
    tpm = guest.features.tpm_version
    if tpm is not None and not {tpm, guest.features.tpm_model} <= settings.tpms:
        raise HardwareNotOffered(f"hw:tpm_version {tpm}: this host emulates no such TPM")
    if guest.features.stateless_firmware and settings.stateless_loader is None:
        raise HardwareNotOffered("hw_firmware_stateless of the image: this host has no such firmware")
    of_host = arch == canonical_arch(settings.arch)
    if hardware.uefi and not (settings.uefi and of_host):
        raise HardwareNotOffered(
            f"hw_firmware_type uefi of the image: this host has no UEFI firmware for {arch} (OVMF)"
        )
    if guest.secure_boot and not (settings.secure_boot and of_host):
        raise HardwareNotOffered(f"os_secure_boot: this host has no firmware with secure boot for {arch}")


def properties_of(instance: Instance) -> dict[str, str]:
    return instance.image.properties if instance.image else {}


def _hardware(instance: Instance) -> GuestHardware:
    try:
        return guest_hardware(properties_of(instance), instance.flavor.extra_specs)
    except BadRequest as error:
        raise ImageUnacceptable(str(error)) from error


def _limits(instance: Instance) -> GuestLimits:
    try:
        return guest_limits(instance.flavor.extra_specs)
    except BadRequest as error:
        raise ImageUnacceptable(str(error)) from error


def _queues(instance: Instance, hardware: GuestHardware, settings: HostSettings) -> int:
    try:
        return queues_of(instance.flavor, properties_of(instance), hardware.vif_model, settings.max_queues)
    except BadRequest as error:
        raise ImageUnacceptable(str(error)) from error


def _features(instance: Instance) -> GuestFeatures:
    try:
        return guest_features(instance.flavor, properties_of(instance))
    except BadRequest as error:
        raise ImageUnacceptable(str(error)) from error


def _topology(instance: Instance, settings: HostSettings) -> CpuTopology:
    """An impossible topology is refused when a server is requested. A server of an earlier release may have one: it keeps one socket for
    each CPU.
    """
    threads = numa_xml.pinned_threads(instance.numa_topology, settings.cells)
    try:
        return cpu_topology(instance.flavor, typed(properties_of(instance)), pinned_threads=threads)
    except BadRequest:
        return CpuTopology(instance.flavor.vcpus, 1, 1)
