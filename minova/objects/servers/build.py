"""Messages between the conductor and a compute about builds, and the conductor's data for a host's audit."""

import msgspec

from minova import errors
from minova.context import RequestContext
from minova.objects.catalogue.flavor import LocalDisk
from minova.objects.hosts.bounds import Count, Line, PowerNumber
from minova.objects.hosts.compute_node import ComputeNode
from minova.objects.hosts.node_audit import ENCODED, Drift
from minova.objects.hosts.numa import InstanceNUMATopology
from minova.objects.requests.build_extras import GuestFile, RequestedNic
from minova.objects.requests.evacuation import Evacuation
from minova.objects.requests.request_spec import HostLimits, RequestSpec, Selection
from minova.objects.servers.chosen_hardware import ChosenHardware
from minova.objects.servers.instance import Instance
from minova.objects.servers.migration import Migration


class BuildMessage(msgspec.Struct, frozen=True, kw_only=True):
    """All arguments of `build_and_run_instance`, stored whole, so that an audit can send them again if the cast was
    lost.

    `image_token`: for the download of the instance's image soon after; None: the host requests one
    (`ConductorApi.image_token`).
    `availability_zone`: of the host, for a guest with a config drive; empty: the default zone.
    `evacuation`: the server existed on a host that is down; None: it is built for the first time, or unshelved.
    """

    instance: Instance
    attempt: int
    node: str
    limits: HostLimits = HostLimits()
    request_spec: RequestSpec
    alternates: tuple[Selection, ...] = ()
    requested_networks: tuple[RequestedNic, ...] = ()
    security_groups: tuple[str, ...] = ()
    block_device_mapping: tuple[LocalDisk, ...] = ()
    injected_files: tuple[GuestFile, ...] = ()
    admin_password: str | None = None
    image_token: str | None = None
    availability_zone: str = ""
    evacuation: Evacuation | None = None


class InstanceClaim(msgspec.Struct, frozen=True, kw_only=True):
    """One of several claims that a host sends in one message. `ctx`: of the request that the build belongs to.

    `step`: the task_state that the build begins with; None: block_device_mapping.
    """

    ctx: RequestContext
    instance_uuid: Line
    attempt: Count
    numa_topology: InstanceNUMATopology | None = None
    step: Line | None = None


class BuildReport(msgspec.Struct, frozen=True, kw_only=True):
    """One of several reports that a host sends in one message: the build begins `step` (a task_state) or, with None,
    has succeeded.

    `ctx`: of the request that the build belongs to.
    `rebuilt`: the disks of an evacuated server were made anew from its image.
    `hardware`: what the guest has got, if nothing was chosen for the server before.
    """

    ctx: RequestContext
    instance_uuid: Line
    attempt: Count
    step: Line | None = None
    power_state: PowerNumber = 0
    rebuilt: bool = False
    hardware: ChosenHardware | None = None


class ReportAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one of several reports. If the report was not written, `stale`, `misfit` or `error` says why.

    `instance`: of an accepted claim. `misfit`: why the conductor does not accept what a claim would take.
    """

    instance: Instance | None = None
    stale: str | None = None
    misfit: str | None = None
    error: str | None = None


def refusal(answer: ReportAnswer) -> errors.MinovaError | None:
    """Returns the error of a report that was not written; None if it was written."""
    if answer.stale is not None:
        return errors.StaleAttempt(answer.stale)
    if answer.misfit is not None:
        return errors.ComputeResourcesUnavailable(answer.misfit)
    return errors.MinovaError(answer.error) if answer.error is not None else None


class HostInstances(msgspec.Struct, frozen=True, kw_only=True):
    """What a host should have. `instances` hold resources on it. `attempts` are open builds that
    are committed to it. `newer`: guests of the host that are newer than their rows, as it has reported them last.
    `fenced`: the host was forced down, so that it must not start a guest by itself: it may be evacuated at any moment.
    """

    instances: tuple[Instance, ...] = ()
    attempts: tuple[BuildMessage, ...] = ()
    newer: tuple[str, ...] = ()
    fenced: bool = False


class AuditInputs(msgspec.Struct, frozen=True, kw_only=True, rename=ENCODED):
    """The conductor's data of one node, for the audit.

    `unexpected_domains`: domains of the sent view that must not run on the node: their instance is deleted or belongs
    to another host, or the build attempt on this host was given up.
    `deleted`: how many seconds ago their instances were deleted, for those that were.
    `migrations`: migrations in progress into or out of this node.
    `moved`: the instances of these migrations, wherever they are.
    `host_nodes`: all nodes that have a row for this service.
    `purged`: domains of the view whose instances were deleted and purged from the tables.
    `newer`: domains of the view that are newer than their rows: the host leaves them as they are.
    `restored`: corrected allocations.
    `conflicts`: what is wrong and stays so.
    `evacuated`: {instance uuid: attempt} of servers that were evacuated from this node and run elsewhere, by that
    attempt. The host removes what it has of them from earlier attempts, and reports that.
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
    newer: tuple[str, ...] = ()
    evacuated: dict[str, int] = {}
