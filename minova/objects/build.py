"""What the conductor asks of a compute, and what it knows of one."""

from typing import Any

import msgspec

from minova import errors
from minova.context import RequestContext
from minova.objects.compute_node import ComputeNode
from minova.objects.instance import Instance
from minova.objects.migration import Migration
from minova.objects.node_audit import ENCODED, Drift
from minova.objects.numa import InstanceNUMATopology
from minova.objects.request_spec import HostLimits, RequestSpec, Selection


class BuildMessage(msgspec.Struct, frozen=True, kw_only=True):
    """All of `build_and_run_instance`: carried whole, so that an audit can hand it out again when the cast was lost.

    `image_token`: for the download of the instance's image, soon; None: the host asks for one (`ConductorApi.image_token`).
    `availability_zone`: of the host, for a guest with a config drive; empty: the default one.
    """

    instance: Instance
    attempt: int
    node: str
    limits: HostLimits = HostLimits()
    request_spec: RequestSpec
    alternates: tuple[Selection, ...] = ()
    requested_networks: tuple[dict[str, Any], ...] = ()
    security_groups: tuple[str, ...] = ()
    block_device_mapping: tuple[dict[str, Any], ...] = ()
    injected_files: tuple[dict[str, str], ...] = ()
    admin_password: str | None = None
    image_token: str | None = None
    availability_zone: str = ""


class InstanceClaim(msgspec.Struct, frozen=True, kw_only=True):
    """One of several claims that a host makes at once. `ctx` is of the request that the build belongs to.

    `step`: the task_state that the build begins with; None: block_device_mapping.
    """

    ctx: RequestContext
    instance_uuid: str
    attempt: int
    numa_topology: InstanceNUMATopology | None = None
    step: str | None = None


class BuildReport(msgspec.Struct, frozen=True, kw_only=True):
    """One of several reports of a host at once: the build begins `step` (a task_state) or, with None, has succeeded.

    `ctx` is of the request that the build belongs to.
    """

    ctx: RequestContext
    instance_uuid: str
    attempt: int
    step: str | None = None
    power_state: int = 0


class ReportAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one of several reports: at most one of `stale` and `error` says why it was not written.

    `instance`: of a claim that stands.
    """

    instance: Instance | None = None
    stale: str | None = None
    error: str | None = None


def refusal(answer: ReportAnswer) -> errors.MinovaError | None:
    """The error of a report that was not written; None: it was."""
    if answer.stale is not None:
        return errors.StaleAttempt(answer.stale)
    return errors.MinovaError(answer.error) if answer.error is not None else None


class HostInstances(msgspec.Struct, frozen=True, kw_only=True):
    """What a host should have. `instances` hold resources there; `attempts` are builds committed to it and open."""

    instances: tuple[Instance, ...] = ()
    attempts: tuple[BuildMessage, ...] = ()


class AuditInputs(msgspec.Struct, frozen=True, kw_only=True, rename=ENCODED):
    """What the conductor knows of one node, for the audit.

    `unexpected_domains` are domains of the handed-in view that must not run there: their instance is deleted, belongs to
    another host, or its attempt here has been given up. `deleted` says of those that were deleted
    how many seconds ago. `migrations` are those in progress into or out of this node,
    `moved` their instances, wherever they are. `host_nodes` names every node that has a row for this service.
    `purged`: domains of the view whose instances were deleted and purged from the tables.
    `restored`: what was put right of allocations; `conflicts`: what is wrong, and stays so.
    """

    node: ComputeNode | None = None
    instances: tuple[Instance, ...] = ()
    attempts: tuple[BuildMessage, ...] = ()
    migrations: tuple[Migration, ...] = ()
    moved: tuple[Instance, ...] = ()
    unexpected_domains: tuple[str, ...] = ()
    deleted: dict[str, float] = {}
    host_nodes: tuple[str, ...] = ()
    restored: tuple[Drift, ...] = ()
    conflicts: tuple[str, ...] = ()
    purged: tuple[str, ...] = ()
