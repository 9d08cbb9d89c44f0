"""What a compute finds at its start: which domains are finished builds, which are half of one, which are to run again. Pure."""

from collections.abc import Iterable

import msgspec

from minova.objects.build import BuildMessage, HostInstances
from minova.objects.compute_node import DomainView
from minova.objects.instance import Instance
from minova.objects.power_rules import must_resume
from minova.objects.states import PowerState


class Adoption(msgspec.Struct, frozen=True, kw_only=True):
    """`finished`: their domain runs, and only the report is missing. `half_built`: their domain is undone, and the
    first audit begins them again, as it begins those that have no domain at all. `switched_off`: idle instances whose
    guests ran when they were last seen, and are off.
    """

    finished: tuple[BuildMessage, ...] = ()
    half_built: tuple[str, ...] = ()
    switched_off: tuple[Instance, ...] = ()


def adopt(known: HostInstances, domains: Iterable[DomainView]) -> Adoption:
    """Which open attempts of this host ended before its restart. Domains of no open attempt are the audit's."""
    by_uuid = {domain.uuid: domain for domain in domains}
    finished = []
    half_built = []
    for message in known.attempts:
        domain = by_uuid.get(message.instance.uuid)
        if domain is None:
            continue
        if domain.attempt == message.attempt and domain.power_state == PowerState.RUNNING:
            finished.append(message)
        else:
            half_built.append(message.instance.uuid)
    switched_off = tuple(
        instance
        for instance in known.instances
        if instance.task_state is None
        and (domain := by_uuid.get(instance.uuid)) is not None
        and domain.ours
        and must_resume(instance.vm_state, instance.power_state, PowerState(domain.power_state))
    )
    return Adoption(finished=tuple(finished), half_built=tuple(half_built), switched_off=switched_off)
