"""The RequestSpec of a request."""

import copy

from names import uuid_of
from nova import objects
from nova.pci import request as pci_request
from nova.virt import hardware


def request_spec(request, context):
    size = request["flavor"]
    flavor = objects.Flavor(
        id=1,
        flavorid="1",
        name=size.get("name", "m1"),
        vcpus=size.get("vcpus", 1),
        memory_mb=size.get("memory_mb", 0),
        root_gb=size.get("root_gb", 0),
        ephemeral_gb=size.get("ephemeral_gb", 0),
        swap=size.get("swap", 0),
        extra_specs=dict(size.get("extra_specs", {})),
    )
    meta = {"properties": dict(request.get("image") or {})}
    if request.get("image_id"):
        meta["id"] = uuid_of(request["image_id"])
    image = objects.ImageMeta.from_dict(meta)
    numa = hardware.numa_get_constraints(flavor, image)
    pci = pci_requests(request, flavor, image)
    hints = request.get("hints") or {}
    return objects.RequestSpec(
        context,
        instance_uuid=uuid_of(request.get("instance_uuid") or request["id"]),
        project_id=request.get("project_id") or "project",
        flavor=flavor,
        image=image,
        numa_topology=numa,
        pci_requests=pci,
        num_instances=1,
        availability_zone=request.get("availability_zone"),
        scheduler_hints={key: value if isinstance(value, list) else [value] for key, value in hints.items()},
        ignore_hosts=request.get("ignore_hosts"),
        force_hosts=request.get("force_hosts"),
        force_nodes=request.get("force_nodes"),
        retry=retry(request),
        instance_group=group(request),
        requested_destination=destination(request),
        requested_resources=[],
        limits=objects.SchedulerLimits(),
        security_groups=objects.SecurityGroupList(),
        ignore_image_metadata=False,
    )


def pci_requests(request, flavor, image):
    """Those of the flavor's aliases, then those of ports."""
    policy = hardware.get_pci_numa_policy_constraint(flavor, image)
    pci_requests = pci_request.get_pci_requests_from_flavor(flavor, affinity_policy=policy)
    pci_requests.requests.extend(
        objects.InstancePCIRequest(
            count=requested_device.get("count", 1),
            spec=copy.deepcopy(requested_device.get("spec", [])),
            numa_policy=requested_device.get("numa_policy"),
            request_id=uuid_of(f"pci {number}"),
        )
        for number, requested_device in enumerate(request.get("pci_requests") or [])
    )
    return pci_requests


def retry(request):
    tried = request.get("retry_hosts")
    if not tried:
        return None
    hosts = [objects.ComputeNode(host=host, hypervisor_hostname=node) for host, node in tried]
    return objects.SchedulerRetries(num_attempts=len(hosts), hosts=objects.ComputeNodeList(objects=hosts))


def group(request):
    server_group = request.get("group")
    if not server_group:
        return None
    instance_group = objects.InstanceGroup(
        uuid=uuid_of(server_group.get("uuid") or "group"),
        name=server_group.get("name", "group"),
        policy=server_group["policy"],
        policies=[server_group["policy"]],
        members=[uuid_of(name) for name in server_group.get("members", [])],
        hosts=list(server_group.get("hosts", [])),
    )
    instance_group._rules = {key: str(value) for key, value in (server_group.get("rules") or {}).items()}
    return instance_group


def destination(request):
    target = request.get("requested_destination")
    if not target:
        return None
    destination = objects.Destination(allow_cross_cell_move=target.get("allow_cross_cell_move", False))
    if target.get("cell"):
        destination.cell = objects.CellMapping(uuid=uuid_of(target["cell"]))
    if target.get("host"):
        destination.host, destination.node = target["host"], target.get("node")
    return destination
