"""What a guest needs of its host beyond its size: cells of memory and CPUs, and PCI devices. Pure."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from minova.errors import InvalidConfiguration, MinovaError
from minova.hardware.errors import PciInvalidAlias
from minova.hardware.guest.cpu_topology import cpu_topology
from minova.hardware.guest.features import AGREEMENTS, guest_features, traits_of_features
from minova.hardware.guest.partner_keys import PARTNERS
from minova.hardware.locked_memory import check_encryption
from minova.hardware.numa_constraints import numa_constraints
from minova.hardware.pci_alias import Aliases, numa_policy_of, parse_aliases, requests_of
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.guest_hardware import guest_hardware, traits_needed
from minova.objects.catalogue.guest_limits import guest_limits
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.image_properties import typed
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


def demands_of(flavor: Flavor, image: Image | None, aliases: Sequence[str]) -> Demands:
    """`aliases`: the texts of [pci] alias. Raises errors of `minova.hardware.errors`, which are all 400."""
    properties = image.properties if image is not None else {}
    policy = numa_policy_of(flavor, properties)
    requests: tuple[InstancePCIRequest, ...] = ()
    if "pci_passthrough:alias" in flavor.extra_specs:
        requests = requests_of(flavor, parse_aliases(aliases), policy)
    return Demands(numa_topology=numa_constraints(flavor, properties), pci_requests=requests)


def host_needs(flavor: Flavor, image: Image | None, aliases: Sequence[str]) -> HostNeeds:
    """Returns what new servers of this flavor and image need of their hosts. `image` None: any image.

    Raises BadRequest if flavor or image require something malformed, or something that no host can have.
    """
    demands = demands_of(flavor, image, aliases)
    traits = traits_of_guest(flavor, image)
    guest_limits(flavor.extra_specs)
    wants_queues(flavor, image.properties if image is not None else {})
    return HostNeeds(numa_topology=demands.numa_topology, pci_requests=demands.pci_requests, required_traits=traits)


def traits_of_guest(flavor: Flavor, image: Image | None) -> tuple[str, ...]:
    """Returns the traits that a host must have for the devices of such a guest. Raises BadRequest as `host_needs`."""
    properties = image.properties if image is not None else {}
    hardware = traits_needed(guest_hardware(properties, flavor.extra_specs))
    return tuple(sorted(hardware | traits_of_features(guest_features(flavor, properties))))


def require_agreement_of(flavor: Flavor, image: Image | None) -> None:
    """For requests that choose an image. Raises BadRequest, which names the keys, if flavor and image contradict each other, or no guest
    can have what they ask for together.
    """
    properties = image.properties if image is not None else {}
    for check in _CHECKS:
        check(flavor, properties)


def require_agreement_of_change(before: Flavor, after: Flavor, image: Image | None) -> None:
    """For requests that give a server another flavor. Raises BadRequest as `require_agreement_of`, but not for what the server has with
    its present flavor already: its image is as it is.
    """
    properties = image.properties if image is not None else {}
    for check in _CHECKS:
        fault = _fault(check, after, properties)
        if fault is not None and str(fault) != str(_fault(check, before, properties)):
            raise fault


def _fault(check: "_Check", flavor: Flavor, properties: Mapping[str, str]) -> MinovaError | None:
    try:
        check(flavor, properties)
    except MinovaError as error:
        return error
    return None


def _require_topology(flavor: Flavor, properties: Mapping[str, str]) -> None:
    cpu_topology(flavor, typed(properties))


def _require_encryption(flavor: Flavor, properties: Mapping[str, str]) -> None:
    """As in Nova, `check_locked_memory` does not look at the encryption of a guest with locked memory."""
    check_encryption(flavor, typed(properties))


_Check = Callable[[Flavor, Mapping[str, str]], None]
_CHECKS: tuple[_Check, ...] = (*AGREEMENTS, *PARTNERS, _require_topology, _require_encryption)
