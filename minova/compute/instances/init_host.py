"""Sorts the domains that a compute finds at its start, or at the end of safe mode: finished builds, half-finished builds,
and guests to start again. Pure.
"""

from collections.abc import Container, Iterable, Mapping

import msgspec

from minova.objects.actions.power_rules import must_resume
from minova.objects.hosts.compute_node import DomainView
from minova.objects.servers.build import BuildMessage, HostInstances
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState


class AdoptionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Decisions about the instances found at the start.

    `finished`: the domain runs, and only the report is missing.
    `half_built`: the domain is undone, and the first audit begins the build again, as it does for builds without a
    domain.
    `switched_off`: instances whose guests ran when they were last seen and are off now, or whose domains are lost.
    """

    finished: tuple[BuildMessage, ...] = ()
    half_built: tuple[str, ...] = ()
    switched_off: tuple[Instance, ...] = ()


def adopt(
    host_instances: HostInstances,
    domains: Iterable[DomainView],
    built: Mapping[str, int] = {},
    newer: Container[str] = (),
    accepted: Container[str] = (),
) -> AdoptionPlan:
    """Sort the open attempts of this host by their domains. The audit handles domains without an open attempt, and
    begins each attempt again whose guest was built, which only claims and reports it.

    `built`: {instance uuid: attempt} of guests that were built here. Their domains are not half built, even if the
    database, restored from a backup, says that they are.
    `newer`: guests that are newer than their rows. They are left as they are.
    `accepted`: guests whose build a conductor has accepted. They are in use, so no other attempt makes them half built.
    """
    by_uuid = {domain.uuid: domain for domain in domains}
    finished = []
    half_built = []
    for message in host_instances.attempts:
        domain = by_uuid.get(message.instance.uuid)
        if domain is None or domain.uuid in newer or domain.uuid in accepted:
            continue
        if max(built.get(domain.uuid, -1), domain.attempt or 0) > message.attempt:
            continue
        if built.get(domain.uuid) == message.attempt:
            continue
        if domain.attempt == message.attempt and domain.power_state == PowerState.RUNNING:
            finished.append(message)
        else:
            half_built.append(message.instance.uuid)
    switched_off = tuple(
        instance
        for instance in host_instances.instances
        if instance.uuid not in newer
        and ((domain := by_uuid.get(instance.uuid)) is None or domain.ours)
        and must_resume(
            instance.vm_state,
            instance.task_state,
            instance.power_state,
            PowerState.SHUTDOWN if domain is None else PowerState(domain.power_state),
        )
    )
    return AdoptionPlan(finished=tuple(finished), half_built=tuple(half_built), switched_off=switched_off)
