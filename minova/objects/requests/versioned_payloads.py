"""Payloads of Nova's versioned notifications that more than one service sends: request specs and what they hold. Pure.

Each is serialised as an object of Nova: a name, a version, and its fields. Names, versions and fields are Nova 34's.
"""

from datetime import datetime
from typing import Any

import msgspec

from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.instance_group import InstanceGroup
from minova.objects.hosts.numa import InstanceNUMACell, InstanceNUMATopology
from minova.objects.hosts.pci import InstancePCIRequest
from minova.objects.requests.request_spec import RequestSpec

Payload = dict[str, Any]


def payload(name: str, version: str, data: Payload) -> Payload:
    return {
        "nova_object.name": name,
        "nova_object.namespace": "nova",
        "nova_object.version": version,
        "nova_object.data": data,
    }


def time_text(value: datetime | None) -> str | None:
    """Formats the time in UTC, in whole seconds."""
    return None if value is None else value.strftime("%Y-%m-%dT%H:%M:%SZ")


def exception(kind: str, message: str) -> Payload:
    """The payload of a failure that another process has reported. Its position in the code is not known."""
    data = {
        "exception": kind,
        "exception_message": message,
        "module_name": "unknown",
        "function_name": "unknown",
        "traceback": "",
    }
    return payload("ExceptionPayload", "1.1", data)


def flavor(value: Flavor) -> Payload:
    data = {name: getattr(value, name) for name in _FLAVOR}
    return payload("FlavorPayload", "1.4", {**data, "vcpu_weight": 0, "projects": None})


def request_spec(value: RequestSpec, instance_uuid: str) -> Payload:
    """`instance_uuid`: the first requested instance; a RequestSpec of minova is for all instances of a request."""
    numa, group = value.numa_topology, value.instance_group
    data = {
        "instance_uuid": instance_uuid,
        "project_id": value.project_id,
        "user_id": value.user_id,
        "availability_zone": value.availability_zone,
        "flavor": flavor(value.flavor),
        "force_hosts": next(iter(value.force_hosts), None),
        "force_nodes": next(iter(value.force_nodes), None),
        "ignore_hosts": [*value.ignore_hosts] or None,
        "image": _image(value.image) if value.image is not None else None,
        "instance_group": _group(group) if group is not None else None,
        "num_instances": value.num_instances,
        "numa_topology": _numa_topology(numa, instance_uuid) if numa is not None else None,
        "pci_requests": _pci_requests(value.pci_requests, instance_uuid),
        "requested_destination": None,
        "retry": None,
        "scheduler_hints": {name: _texts(hint) for name, hint in value.scheduler_hints.items()},
        "security_groups": [],
    }
    return payload("RequestSpecPayload", "1.1", data)


_FLAVOR = (
    "flavorid",
    "name",
    "vcpus",
    "memory_mb",
    "root_gb",
    "ephemeral_gb",
    "swap",
    "rxtx_factor",
    "is_public",
    "disabled",
    "description",
    "extra_specs",
)
_IMAGE = (
    "id",
    "name",
    "status",
    "disk_format",
    "container_format",
    "size",
    "virtual_size",
    "checksum",
    "min_disk",
    "min_ram",
    "visibility",
    "protected",
    "owner",
)


def _texts(hint: Any) -> list[str]:
    return [str(entry) for entry in (hint if isinstance(hint, list | tuple) else [hint])]


def _image(value: Image) -> Payload:
    data = {
        **{name: getattr(value, name) for name in _IMAGE},
        "direct_url": None,
        "tags": [*value.tags],
        "properties": payload("ImageMetaPropsPayload", "1.20", {**value.properties}),
        "created_at": time_text(value.created_at),
        "updated_at": time_text(value.updated_at),
    }
    return payload("ImageMetaPayload", "1.0", data)


def _group(value: InstanceGroup) -> Payload:
    data = {
        "uuid": value.uuid,
        "name": value.name,
        "project_id": value.project_id,
        "user_id": value.user_id,
        "policies": [value.policy],
        "policy": value.policy,
        "rules": {name: str(rule) for name, rule in value.rules.items()},
        "members": [*value.members],
        "hosts": [*value.hosts] or None,
    }
    return payload("ServerGroupPayload", "1.1", data)


def _numa_topology(value: InstanceNUMATopology, instance_uuid: str) -> Payload:
    data = {
        "instance_uuid": instance_uuid,
        "emulator_threads_policy": value.emulator_threads_policy,
        "cells": [_numa_cell(cell) for cell in value.cells],
    }
    return payload("InstanceNUMATopologyPayload", "1.0", data)


def _numa_cell(value: InstanceNUMACell) -> Payload:
    data = {
        "id": value.id,
        "cpuset": sorted(value.cpuset),
        "pcpuset": sorted(value.pcpuset),
        "cpuset_reserved": None if value.cpuset_reserved is None else sorted(value.cpuset_reserved),
        "memory": value.memory,
        "pagesize": value.pagesize,
        "cpu_topology": None,
        "cpu_pinning_raw": {str(guest): host for guest, host in value.cpu_pinning} or None,
        "cpu_policy": value.cpu_policy,
        "cpu_thread_policy": value.cpu_thread_policy,
    }
    return payload("InstanceNUMACellPayload", "1.2", data)


def _pci_requests(values: tuple[InstancePCIRequest, ...], instance_uuid: str) -> Payload:
    requests = [
        payload(
            "InstancePCIRequestPayload",
            "1.1",
            {**msgspec.structs.asdict(value), "spec": [dict(pairs) for pairs in value.spec]},
        )
        for value in values
    ]
    return payload("InstancePCIRequestsPayload", "1.0", {"instance_uuid": instance_uuid, "requests": requests})
