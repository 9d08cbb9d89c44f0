"""Converts a request of a scenario to the RequestSpec that a conductor would have made."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minova.hardware.numa_constraints import numa_constraints
from minova.hardware.pci_alias import Aliases, numa_policy_of, requests_of
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.image_properties import typed
from minova.objects.catalogue.instance_group import InstanceGroup
from minova.objects.hosts.pci import InstancePCIRequest
from minova.objects.requests.request_spec import Destination, PlacementFilter, RequestSpec, Retry
from minova.simulate.hosts import pairs
from minova.simulate.scenario import Group, ScenarioPciRequest, ScenarioRequest, ScenarioTarget, uuid_of

# A scenario has no Placement: every host is a candidate.
EVERYWHERE = PlacementFilter(resources={})
INSTANCE_HINTS = ("same_host", "different_host")


def request_spec(described: ScenarioRequest, aliases: Callable[[], Aliases]) -> RequestSpec:
    """Raises the errors of `minova.hardware` and of image properties if the request is invalid."""
    size = described.flavor
    flavor = Flavor(
        flavorid=size.name,
        name=size.name,
        vcpus=size.vcpus,
        memory_mb=size.memory_mb,
        root_gb=size.root_gb,
        ephemeral_gb=size.ephemeral_gb,
        swap=size.swap,
        extra_specs={key: str(value) for key, value in size.extra_specs.items()},
    )
    image = Image(
        id=uuid_of(described.image_id) if described.image_id else "",
        properties={key: str(value) for key, value in (described.image or {}).items()},
    )
    typed(image.properties)
    return RequestSpec(
        flavor=flavor,
        instance_uuid=uuid_of(described.instance_uuid or described.id),
        image=image,
        project_id=described.project_id or "project",
        availability_zone=described.availability_zone,
        ignore_hosts=tuple(described.ignore_hosts or ()),
        force_hosts=tuple(described.force_hosts or ()),
        force_nodes=tuple(described.force_nodes or ()),
        retry=Retry(num_attempts=len(described.retry_hosts or ()), hosts=tuple(described.retry_hosts or ())),
        scheduler_hints=_hints(described.hints or {}),
        instance_group=_group(described.group) if described.group else None,
        numa_topology=numa_constraints(flavor, image.properties),
        pci_requests=(*_of_flavor(flavor, image, aliases), *_of_ports(described.pci_requests or ())),
        requested_destination=_destination(described.requested_destination),
        placement=EVERYWHERE,
    )


def _hints(hints: Mapping[str, Any]) -> dict[str, Any]:
    """Returns lists, as the API makes them. A hint may give a server by name."""
    lists = {key: value if isinstance(value, list) else [value] for key, value in hints.items()}
    for key in INSTANCE_HINTS:
        if key in lists:
            lists[key] = [uuid_of(name) if isinstance(name, str) else name for name in lists[key]]
    return lists


def _group(group: Group) -> InstanceGroup:
    limit = group.rules.get("max_server_per_host")
    return InstanceGroup(
        uuid=uuid_of(group.uuid or "group"),
        name=group.name,
        policy=group.policy,
        max_server_per_host=None if limit is None else int(limit),
        members=tuple(uuid_of(name) for name in group.members),
        hosts=tuple(group.hosts),
    )


def _of_flavor(flavor: Flavor, image: Image, aliases: Callable[[], Aliases]) -> tuple[InstancePCIRequest, ...]:
    policy = numa_policy_of(flavor, image.properties)
    if "pci_passthrough:alias" not in flavor.extra_specs:
        return ()
    return requests_of(flavor, aliases(), policy)


def _of_ports(ports: Sequence[ScenarioPciRequest]) -> tuple[InstancePCIRequest, ...]:
    return tuple(
        InstancePCIRequest(
            count=port.count, spec=tuple(pairs(spec) for spec in port.spec), numa_policy=port.numa_policy
        )
        for port in ports
    )


def _destination(target: ScenarioTarget | None) -> Destination | None:
    """A cell counts even if another one may be chosen: then the cell is preferred."""
    if target is None:
        return None
    cell = uuid_of(target.cell) if target.cell and target.allow_cross_cell_move else None
    return Destination(
        host=target.host, node=target.node, cell=cell, allow_cross_cell_move=target.allow_cross_cell_move
    )
