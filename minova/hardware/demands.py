"""The needs of a guest beyond its size: cells of memory and CPUs, PCI devices, traits of its host. Pure."""

from collections.abc import Callable, Sequence

import msgspec

from minova.errors import InvalidConfiguration, MinovaError
from minova.hardware.errors import PciInvalidAlias
from minova.hardware.guest.cpu_topology import cpu_topology
from minova.hardware.guest.features import AGREEMENTS, FlavorAndImage, traits_of_features
from minova.hardware.guest.partner_keys import PARTNERS
from minova.hardware.locked_memory import check_encryption
from minova.hardware.pci_alias import Aliases, numa_policy_of, parse_aliases, requests_of
from minova.objects.catalogue.guest_hardware import guest_hardware, traits_needed
from minova.objects.catalogue.guest_limits import guest_limits
from minova.objects.catalogue.vif_queues import wants_queues
from minova.objects.hosts.numa import InstanceNUMATopology
from minova.objects.hosts.pci import InstancePCIRequest
from minova.objects.requests.server_request import HostNeeds


def require_aliases(texts: Sequence[str]) -> Aliases:
    """For the start of a service. Raises InvalidConfiguration if an entry of [pci] alias is invalid."""
    try:
        return parse_aliases(texts)
    except PciInvalidAlias as error:
        raise InvalidConfiguration(str(error)) from None


class Demands(msgspec.Struct, frozen=True, kw_only=True):
    numa_topology: InstanceNUMATopology | None = None
    pci_requests: tuple[InstancePCIRequest, ...] = ()


def demands_of(guest: FlavorAndImage, aliases: Sequence[str]) -> Demands:
    """`aliases`: the texts of [pci] alias. Raises errors of `minova.hardware.errors`, which are all 400."""
    policy = numa_policy_of(guest.flavor, guest.properties)
    requests: tuple[InstancePCIRequest, ...] = ()
    if "pci_passthrough:alias" in guest.specs:
        requests = requests_of(guest.flavor, parse_aliases(aliases), policy)
    return Demands(numa_topology=guest.numa_topology, pci_requests=requests)


def host_needs(guest: FlavorAndImage, aliases: Sequence[str]) -> HostNeeds:
    """Returns what new servers need of their hosts.

    Raises BadRequest if flavor or image require something malformed, or something that no host can have.
    """
    demands = demands_of(guest, aliases)
    traits = traits_of_guest(guest)
    guest_limits(guest.specs)
    wants_queues(guest.flavor, guest.properties)
    return HostNeeds(numa_topology=demands.numa_topology, pci_requests=demands.pci_requests, required_traits=traits)


def traits_of_guest(guest: FlavorAndImage) -> tuple[str, ...]:
    """Returns the traits that a host must have for the devices of such a guest. Raises BadRequest as `host_needs`."""
    hardware = traits_needed(guest_hardware(guest.properties, guest.specs))
    return tuple(sorted(hardware | traits_of_features(guest.features)))


def require_agreement_of(guest: FlavorAndImage) -> None:
    """For requests that choose an image. Raises BadRequest, which names the keys, if flavor and image contradict each other, or no guest
    can have what they ask for together.
    """
    for check in _CHECKS:
        check(guest)


def require_agreement_of_change(before: FlavorAndImage, after: FlavorAndImage) -> None:
    """For requests that give a server another flavor. Raises BadRequest as `require_agreement_of`, but not for what the server has with
    its present flavor already: its image is as it is.
    """
    for check in _CHECKS:
        fault = _fault(check, after)
        if fault is not None and str(fault) != str(_fault(check, before)):
            raise fault


def _fault(check: "_Check", guest: FlavorAndImage) -> MinovaError | None:
    try:
        check(guest)
    except MinovaError as error:
        return error
    return None


def _require_topology(guest: FlavorAndImage) -> None:
    cpu_topology(guest.flavor, guest.image)


def _require_encryption(guest: FlavorAndImage) -> None:
    """As in Nova, `check_locked_memory` does not look at the encryption of a guest with locked memory."""
    check_encryption(guest.flavor, guest.image)


_Check = Callable[[FlavorAndImage], None]
_CHECKS: tuple[_Check, ...] = (*AGREEMENTS, *PARTNERS, _require_topology, _require_encryption)
