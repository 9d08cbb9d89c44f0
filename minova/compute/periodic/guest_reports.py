"""Reports all guests of this host to a conductor, which compares them with their rows."""

import itertools
import logging
import unicodedata
from collections.abc import Iterable, Sequence
from functools import partial

from minova import errors
from minova.compute.instances.background import Background
from minova.compute.instances.builds import Builder
from minova.compute.instances.domains import is_handed_over
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.objects.hosts.compute_node import DomainView
from minova.objects.servers.states import PowerState
from minova.objects.unexpected.guest_record import GuestMark, GuestRecord, GuestsAnswer
from minova.virt.driver import ComputeDriver
from minova.virt.driver.disks import LeftDisks

LOG = logging.getLogger(__name__)
# The most records in one message: each is some 10 kB.
MAX_TOGETHER = 20


class GuestReporter:
    """`newer`: guests that are newer than their rows, by the last report. They are left as they are."""

    def __init__(
        self, host: str, driver: ComputeDriver, conductor: ConductorApi, builder: Builder, background: Background
    ) -> None:
        self._host = host
        self._driver = driver
        self._conductor = conductor
        self._builder = builder
        self._background = background
        self._records = builder.domains.records
        self._numbers = itertools.count(1)
        self.newer: frozenset[str] = frozenset()

    def report(self, ctx: RequestContext) -> None:
        """Raises ServiceUnavailable if no conductor answers, and the errors of the driver."""
        # Taken before the guests are read: a report with a higher number is not older.
        number = next(self._numbers)
        domains = [domain for domain in self._driver.domains() if domain.ours]
        self._complete_records(ctx, domains)
        marks = self._marks(domains)
        try:
            answer = self._conductor.report_guests(ctx, host=self._host, guests=tuple(marks), number=number)
        except errors.PeerTooOld:  # during an upgrade
            return
        self.newer = frozenset(answer.newer)
        self._send(ctx, answer)
        by_uuid = {mark.uuid: mark for mark in marks}
        for uuid in answer.remove:
            if uuid in by_uuid:
                work = partial(self._builder.removals.remove_unexpected, ctx, uuid, by_uuid[uuid].attempt)
                self._background.run(ctx, ("unexpected", uuid), work)
        for uuid in answer.pause:
            if uuid in by_uuid:
                work = partial(self._builder.removals.pause_stray, uuid, by_uuid[uuid].attempt)
                self._background.run(ctx, ("stray", uuid), work)
        for uuid in answer.resume:
            if uuid in by_uuid:
                work = partial(self._builder.removals.resume_kept, ctx, uuid, by_uuid[uuid].attempt)
                self._background.run(ctx, ("handed over", uuid), work)

    def _send(self, ctx: RequestContext, answer: GuestsAnswer) -> None:
        records = [record for uuid in answer.wanted if (record := self._records.of(uuid)) is not None]
        for start in range(0, len(records), MAX_TOGETHER):
            some = tuple(records[start : start + MAX_TOGETHER])
            self._conductor.report_guest_records(ctx, host=self._host, records=some, number=next(self._numbers))

    def _complete_records(self, ctx: RequestContext, domains: Sequence[DomainView]) -> None:
        """Makes records of guests that an older release has built, from their rows."""
        without = {domain.uuid: domain.attempt for domain in domains if self._records.of(domain.uuid) is None}
        if not without:
            return
        try:
            instances = self._conductor.instances_of_host(ctx, host=self._host).instances
        except errors.ServiceUnavailable:  # refused in safe mode: a later report makes the records
            return
        self._records.learn(
            instance
            for instance in instances
            if instance.task_state is None and without.get(instance.uuid) == instance.attempt
        )

    def _marks(self, domains: Iterable[DomainView]) -> list[GuestMark]:
        marks = [self._mark_of(domain) for domain in domains]
        marked_uuids = {mark.uuid for mark in marks}
        return marks + [self._mark_of_disks(disks) for disks in self._driver.left_disks(marked_uuids)]

    def _mark_of(self, domain: DomainView) -> GuestMark:
        record = self._records.of(domain.uuid)
        return _with_record(
            GuestMark(
                uuid=domain.uuid,
                name=_one_line(domain.name),
                memory_mb=domain.memory_mb,
                vcpus=domain.vcpus,
                power_state=domain.power_state,
                attempt=domain.attempt,
                handed_over=domain.power_state == PowerState.PAUSED and self._is_handed_over(domain.uuid),
            ),
            record,
        )

    def _is_handed_over(self, instance_uuid: str) -> bool:
        """Not while the host works on the guest: a look would release the disks that a move holds."""
        try:
            with self._builder.domains.locked_at_once(instance_uuid):
                return is_handed_over(self._driver, instance_uuid)
        except errors.ServiceUnavailable:
            return False

    def _mark_of_disks(self, disks: LeftDisks) -> GuestMark:
        mark = GuestMark(uuid=disks.uuid, disk_gb=disks.disk_gb, attempt=disks.attempt, has_domain=False)
        return _with_record(mark, self._records.of(disks.uuid))


def _with_record(mark: GuestMark, record: GuestRecord | None) -> GuestMark:
    """Returns the mark with what the record knows of the same attempt."""
    if record is None or (mark.attempt is not None and record.attempt != mark.attempt):
        return mark
    last = record.actions[-1] if record.actions else None
    return GuestMark(
        uuid=mark.uuid,
        name=_one_line(record.instance.display_name) or mark.name,
        node=record.node,
        memory_mb=mark.memory_mb,
        vcpus=mark.vcpus,
        disk_gb=mark.disk_gb or record.instance.flavor.disk_gb,
        power_state=mark.power_state,
        attempt=mark.attempt,
        handed_over=mark.handed_over,
        handed_over_to=record.left_for if mark.handed_over else None,
        action_id=last.id if last is not None else None,
        request_id=last.request_id if last is not None else None,
        has_domain=mark.has_domain,
        has_record=True,
        accepted=record.accepted,
    )


def _one_line(name: str) -> str:
    """Names of older releases may have characters that a conductor refuses in a mark."""
    return "".join(char for char in name if unicodedata.category(char) not in {"Cc", "Zl", "Zp", "Cs"})[:255]
