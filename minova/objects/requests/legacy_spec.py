"""A RequestSpec in the dict form of Nova's unversioned notifications. Pure."""

from typing import Any

import msgspec

from minova.objects.requests.request_spec import RequestSpec


def legacy_request_spec(spec: RequestSpec) -> dict[str, Any]:
    """Nova's `to_legacy_request_spec_dict`, in plain values."""
    flavor = spec.flavor
    properties = {
        "numa_topology": spec.numa_topology,
        "pci_requests": spec.pci_requests,
        "project_id": spec.project_id,
        "user_id": spec.user_id,
        "availability_zone": spec.availability_zone,
        "root_gb": flavor.root_gb,
        "ephemeral_gb": flavor.ephemeral_gb,
        "memory_mb": flavor.memory_mb,
        "vcpus": flavor.vcpus,
    }
    legacy = {
        "num_instances": spec.num_instances,
        "image": spec.image if spec.image is not None else {},
        "instance_properties": properties,
        "instance_type": flavor,
    }
    fields: dict[str, Any] = msgspec.to_builtins(legacy)
    return fields
