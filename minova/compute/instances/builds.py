"""Builds instances on this host.

claim -> image -> disks and domain -> domain runs -> build_succeeded
  any error: domain removed, claim given back -> build_failed (or nothing, when the attempt is stale)
"""

import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from minova import errors, metrics
from minova.compute.conductor_retry import ConductorRetry
from minova.compute.guest_records import GuestRecords, with_long_fields
from minova.compute.images.source import ImageSource
from minova.compute.images.tokens import ImageToken
from minova.compute.instances.attempts import Attempts, End, Outcome
from minova.compute.instances.clean_stops import DEFAULT_TIMEOUT, CleanStops
from minova.compute.instances.domains import Domains
from minova.compute.instances.removals import Removals
from minova.compute.instances.report_queue import ReportQueue
from minova.compute.instances.vif_plug_waiter import VifPlugWaiter
from minova.compute.tracker.nodes import Nodes
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.image_format.inspected_files import inspect_once
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.image_fitness import unfit
from minova.objects.requests.build_extras import BuildExtras
from minova.objects.servers.build import BuildMessage
from minova.objects.servers.chosen_hardware import MACHINE_TYPE, ChosenHardware
from minova.objects.servers.failures import CAUSED_BY_REQUEST, kind_of
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import (
    EVACUATION_STEPS,
    PowerState,
    TaskState,
    VmState,
    is_being_built,
)
from minova.objects.unexpected.guest_record import GuestRecord
from minova.virt.driver import ComputeDriver
from minova.virt.driver.domains import GuestData

LOG = logging.getLogger(__name__)
# Seconds after its claim for which an attempt counts as this host's without another request to the conductor.
FRESH_CLAIM = 5.0


class Builder:
    """Builds instances, one operation at a time for each instance. `check` raises to end a build that
    waits.
    """

    def __init__(
        self,
        host: str,
        driver: ComputeDriver,
        conductor: ConductorApi,
        images: ImageSource,
        nodes: Nodes,
        *,
        clock: Callable[[], float] = time.monotonic,
        check: Callable[[], None] = lambda: None,
        repeat: ConductorRetry | None = None,
        fresh_claim: float = FRESH_CLAIM,
        vif_plug_waiter: VifPlugWaiter | None = None,
        records: GuestRecords | None = None,
        stops: CleanStops | None = None,
    ) -> None:
        self.stops = stops or CleanStops(driver, lambda: DEFAULT_TIMEOUT, clock=clock)
        self._fresh_claim = fresh_claim
        self.attempts = Attempts()
        self._check = check
        # Evacuated servers whose disks were made anew, until that is reported.
        self._rebuilt: set[str] = set()
        self.domains = Domains(driver, records)
        self._reports = ReportQueue(host, conductor, repeat)
        self._host = host
        self._driver = driver
        self._conductor = conductor
        self._images = images
        self._nodes = nodes
        self._clock = clock
        self._repeat = repeat or ConductorRetry()
        self.removals = Removals(
            host,
            driver,
            conductor,
            nodes,
            domains=self.domains,
            attempts=self.attempts,
            stops=self.stops,
            repeat=self._repeat,
            clock=clock,
        )
        self.vif_plug_waiter = vif_plug_waiter or VifPlugWaiter(host, conductor, clock=clock, repeat=self._repeat)

    # -- build -----------------------------------------------------------------------------------------------------

    def build(self, ctx: RequestContext, message: BuildMessage) -> None:
        """Build and report. Call it once for each attempt for which `attempts.begin` returned True."""
        instance_uuid = message.instance.uuid
        with self.domains.locked(instance_uuid):
            outcome = self._outcome(ctx, message)
            self.attempts.end(instance_uuid, message.attempt, message.node, outcome)
            self._report(ctx, message, outcome)

    def cancel(self, instance_uuid: str) -> None:
        """Cancel the build of an instance that is to be removed: it ends at its next step, and stops waiting for its
        image. No guest is waited for either that must not run.
        """
        self.stops.cancel(instance_uuid)
        self.attempts.cancel(instance_uuid)

    def _require_wanted(self, message: BuildMessage) -> None:
        self._check()
        if self.attempts.is_cancelled(message.instance.uuid, message.attempt):
            raise errors.StaleAttempt(f"instance {message.instance.uuid} is being deleted")

    def report(self, ctx: RequestContext, message: BuildMessage) -> None:
        """Report again how an attempt ended, because the conductor has not received it."""
        with self.domains.locked(message.instance.uuid):
            outcome = self.attempts.outcome(message.instance.uuid, message.attempt)
            if outcome is not None and not self._was_accepted(message):
                self._report(ctx, message, outcome)

    def _was_accepted(self, message: BuildMessage) -> bool:
        """Whether the success of the attempt was accepted before: then the database that does not know it was restored
        from before the claim, maybe. The next audit begins the attempt again, which claims and reports it.
        """
        record = self.domains.records.of(message.instance.uuid)
        was_accepted = record is not None and record.accepted and record.attempt == message.attempt
        if was_accepted:
            self.attempts.forget(message.instance.uuid)
        return was_accepted

    def _outcome(self, ctx: RequestContext, message: BuildMessage) -> Outcome:
        instance_uuid, attempt = message.instance.uuid, message.attempt
        begun = self._clock()
        try:
            with metrics.timed(metrics.BUILD_SECONDS):
                power_state, built_before = self._build(ctx, message)
        except (errors.StaleAttempt, errors.GuestIsNewer) as error:
            LOG.info("Attempt %d of instance %s is not ours any more: %s", attempt, instance_uuid, error)
            return Outcome(end=End.STALE)
        except errors.MinovaError as error:
            LOG.warning("Attempt %d of instance %s failed: %s", attempt, instance_uuid, error)
            return failed(error)
        except Exception as error:
            LOG.exception("Attempt %d of instance %s failed", attempt, instance_uuid)
            return Outcome(end=End.FAILED, reason=str(error) or type(error).__name__)
        LOG.info("Took %.2f seconds to build instance %s", self._clock() - begun, instance_uuid)
        recorded = MACHINE_TYPE in message.instance.system_metadata
        hardware = None if recorded else hardware_of(self._driver, instance_uuid)
        return Outcome(end=End.SUCCEEDED, power_state=power_state, built_before=built_before, hardware=hardware)

    def _build(self, ctx: RequestContext, message: BuildMessage) -> tuple[PowerState, bool]:
        """Returns the guest's state, and whether the guest was found, built before by the same attempt."""
        self._require_wanted(message)
        tracker = self._nodes.tracker(message.node)
        held_instance = tracker.holds(message.instance.uuid)
        if held_instance is not None and not _is_built_by(message, held_instance):
            raise errors.StaleAttempt(f"instance {held_instance.uuid} is {held_instance.vm_state} here")
        found_state = self._earlier_state(message)
        # Use the requested topology: an earlier attempt may have fitted it to another host.
        requested_instance = msgspec.structs.replace(message.instance, numa_topology=message.request_spec.numa_topology)
        step = self._first_step(message.instance.image)
        self._rebuilt.discard(message.instance.uuid)
        asked_at = self._clock()
        with tracker.instance_claim(ctx, requested_instance, message.attempt, message.limits, step) as claim:
            if found_state is not None:
                return found_state, True
            try:
                # The image of a shelved server differs from the image of its row.
                instance = msgspec.structs.replace(claim.instance, image=message.instance.image)
                copies_image = _differ(claim.instance.image, message.instance.image)
                power_state = self._spawn(ctx, message, instance, asked_at, copies_image=copies_image)
                self.domains.records.keep(record_of(message, instance, power_state))
                return power_state, False
            except errors.GuestIsNewer:
                raise
            except BaseException:
                # Clean up before the claim is given back: the domain's resources must be free by then.
                self.removals.undo(ctx, message)
                raise

    def _earlier_state(self, message: BuildMessage) -> PowerState | None:
        """Returns the state of the guest that this attempt has made here before, or None. Raises GuestIsNewer if a guest
        is here of a later attempt, or of an earlier one whose success was accepted: the database that requests this
        attempt is older than the guest.
        """
        record = self.domains.records.of(message.instance.uuid)
        if record is None:
            return None
        if record.attempt < message.attempt:
            if record.accepted and self._driver.power_state(message.instance.uuid) is not None:
                raise errors.GuestIsNewer(f"a guest of attempt {record.attempt} is here, and in use")
            return None
        if record.attempt > message.attempt:
            raise errors.GuestIsNewer(
                f"a guest of attempt {record.attempt} is here, which is newer; minova-manage unexpected list shows it"
            )
        power_state = self._driver.power_state(message.instance.uuid)
        if power_state is None and record.accepted:
            raise errors.GuestIsNewer("the guest of this attempt was here, and its domain is gone: its disks stay")
        return power_state

    def _first_step(self, image: Image | None) -> TaskState:
        """Returns the first step of the build, which the claim sets: without a download the build spawns soon after the
        claim.
        """
        if self._driver.needs_image() and not (image is not None and self._images.is_cached(image)):
            return TaskState.BLOCK_DEVICE_MAPPING
        return TaskState.SPAWNING

    def _spawn(
        self, ctx: RequestContext, message: BuildMessage, instance: Instance, claimed_at: float, *, copies_image: bool
    ) -> PowerState:
        # The claim has recorded the first step, and that this attempt belongs to this host.
        check = partial(self._require_wanted, message)
        path, has_disks = None, self._take_over(message)
        if not has_disks:
            path = self._image_path(ctx, instance, check, message.image_token)
        check()
        instance = self.vif_plug_waiter.bound(ctx, instance, message.attempt, check)
        self.domains.reused(instance.uuid)
        self._driver.prepare(
            instance,
            message.node,
            message.attempt,
            path,
            data_of(message),
            with_disks=not has_disks,
            copies_image=copies_image,
        )
        check()
        is_recent = self._clock() - claimed_at < self._fresh_claim
        if not (is_recent and instance.task_state in _SPAWNING):
            self._reports.begin(ctx, message.instance.uuid, message.attempt, TaskState.SPAWNING)
        if message.evacuation is not None and message.evacuation.stops:
            return PowerState.SHUTDOWN
        if not self.vif_plug_waiter.must_wait(instance):
            return self._driver.power_on(instance)
        # The interfaces exist once the domain does, and then an agent of Neutron wires them: the guest must not run
        # before.
        self._driver.power_on(instance, paused=True)
        self.vif_plug_waiter.wait(ctx, instance, message.attempt, check)
        return self._driver.unpause(instance.uuid)

    def _take_over(self, message: BuildMessage) -> bool:
        """Returns whether the disks of an evacuated server are here, on storage that its old host shares.

        Raises InvalidSharedStorage if that is not as the request says.
        """
        if message.evacuation is None:
            return False
        uuid, expected = message.instance.uuid, message.evacuation.shared_disks
        if expected is not False:
            taken_over = self._driver.take_over(uuid, message.attempt, message.evacuation.old_attempt)
            if expected and not taken_over:
                raise errors.InvalidSharedStorage(
                    f"The disks of instance {uuid} are not on storage that this host shares"
                )
            if taken_over:
                return True
        LOG.warning("The disks of instance %s are made anew from its image: those of its old host are not here", uuid)
        self._rebuilt.add(uuid)
        return False

    def _image_path(
        self, ctx: RequestContext, instance: Instance, check: Callable[[], None], token_value: str | None
    ) -> Path | None:
        if not self._driver.needs_image():
            return None
        image = instance.image
        if image is None:
            raise errors.ImageUnacceptable(f"Instance {instance.uuid} names no image, and this host needs one")
        token = ImageToken.of_build(
            lambda image_id: self._conductor.image_token(
                ctx, instance_uuid=instance.uuid, image_id=image_id, host=self._host
            ),
            image.id,
            token_value,
        )
        return checked_file(image, instance.flavor, lambda: self._images.fetch(image, check, token))

    # -- reports ---------------------------------------------------------------------------------------------------

    def _report(self, ctx: RequestContext, message: BuildMessage, outcome: Outcome) -> None:
        """Report the outcome. Nothing is lost if no conductor answers: the attempt stays open there, and an audit
        reports it again.
        """
        try:
            if outcome.end is End.SUCCEEDED:
                self._succeeded(ctx, message, outcome)
            elif outcome.end is End.FAILED and self._is_undone(ctx, message):
                self._failed(ctx, message, outcome)
        except errors.StaleAttempt as error:
            stale = Outcome(end=End.STALE)
            self.attempts.end(message.instance.uuid, message.attempt, message.node, stale)
            if outcome.built_before:
                LOG.warning("Instance %s was built before and is left to the audit: %s", message.instance.uuid, error)
                return
            LOG.info("Instance %s was given up meanwhile and is removed: %s", message.instance.uuid, error)
            if self.removals.undo(ctx, message):
                self._nodes.release(ctx, message.instance.uuid)
        except Exception as error:  # noqa: BLE001  - whatever came back, the audit goes on from here
            LOG.warning("An audit will report again how the build of %s ended: %s", message.instance.uuid, error)

    def _is_undone(self, ctx: RequestContext, message: BuildMessage) -> bool:
        """Whether nothing of a failed attempt is left here. An evacuation waits for that: another host would run the guest, too."""
        uuid = message.instance.uuid
        if message.evacuation is None or uuid not in self.domains.not_removed() or self.removals.undo(ctx, message):
            return True
        LOG.warning(
            "Instance %s may run here: an audit reports that its evacuation has failed once it is removed", uuid
        )
        return False

    def _succeeded(self, ctx: RequestContext, message: BuildMessage, outcome: Outcome) -> None:
        tracker = self._nodes.tracker(message.node)
        rebuilt = message.instance.uuid in self._rebuilt
        self._reports.succeed(
            ctx,
            message.instance.uuid,
            message.attempt,
            outcome.power_state,
            tracker,
            rebuilt=rebuilt,
            hardware=outcome.hardware,
        )
        self._rebuilt.discard(message.instance.uuid)
        self.domains.records.accepted(message.instance.uuid, message.attempt)

    def _failed(self, ctx: RequestContext, message: BuildMessage, outcome: Outcome) -> None:
        try:
            self._repeat("build_failed", lambda: self._report_failure(ctx, message, outcome, outcome.kind))
        except errors.PeerTooOld:  # an older conductor does not accept kinds
            self._repeat("build_failed", lambda: self._report_failure(ctx, message, outcome, ""))
        # An audit between the clean-up and this report has counted the instance again from its row.
        self._nodes.release(ctx, message.instance.uuid)
        for tracker in self._nodes.trackers():
            if tracker.nodename == message.node and outcome.fault_of_host:
                tracker.count_failed_build()

    def _report_failure(self, ctx: RequestContext, message: BuildMessage, outcome: Outcome, kind: str) -> None:
        self._conductor.build_failed(
            ctx,
            instance_uuid=message.instance.uuid,
            attempt=message.attempt,
            host=self._host,
            reason=outcome.reason,
            retriable=outcome.retriable,
            kind=kind,
        )


_SPAWNING = frozenset({TaskState.SPAWNING, TaskState.REBUILD_SPAWNING})


def _differ(of_row: Image | None, built_from: Image | None) -> bool:
    """Whether the disk is made from another image than the one that the row names, and that moves bring along."""
    return of_row is not None and built_from is not None and of_row.os_hash_value != built_from.os_hash_value


def _is_built_by(message: BuildMessage, held_instance: Instance) -> bool:
    """Whether an instance that counts on this host is still being built, as the message says."""
    if message.evacuation is not None:
        return held_instance.task_state in EVACUATION_STEPS
    return is_being_built(held_instance.vm_state)


def record_of(message: BuildMessage, instance: Instance, power_state: PowerState) -> GuestRecord:
    """Returns the record of a guest that was just built."""
    stops = message.evacuation is not None and message.evacuation.stops
    vm_state = VmState.STOPPED if stops else VmState.ACTIVE
    built = msgspec.structs.replace(
        instance, vm_state=vm_state, task_state=None, power_state=power_state, attempt=message.attempt
    )
    build_extras = BuildExtras(
        requested_networks=message.requested_networks,
        security_groups=message.security_groups,
        block_device_mapping=message.block_device_mapping,
    )
    return GuestRecord(
        instance=with_long_fields(built, message.instance),
        attempt=message.attempt,
        node=message.node,
        request_spec=message.request_spec,
        build_extras=build_extras,
    )


def data_of(message: BuildMessage) -> GuestData:
    return GuestData(
        availability_zone=message.availability_zone,
        admin_password=message.admin_password,
        files=message.injected_files,
    )


def failed(error: errors.MinovaError) -> Outcome:
    """Returns the outcome of an attempt that ended with this error. These are no faults of this host: an absent
    conductor, broker or image service, hardware that the host never offered, and errors caused by the request.
    """
    kind = kind_of(error)
    by_request = kind in CAUSED_BY_REQUEST
    away = isinstance(error, errors.ServiceUnavailable | errors.HardwareNotOffered)
    return Outcome(
        end=End.FAILED,
        reason=str(error),
        kind=kind,
        retriable=not by_request,
        fault_of_host=not away and not by_request,
    )


def hardware_of(driver: ComputeDriver, instance_uuid: str) -> ChosenHardware | None:
    """Returns the hardware of a guest that was just made, for the record: a move may follow at once. None if the hypervisor does not
    answer; then an audit records it.
    """
    try:
        return driver.chosen_hardware([instance_uuid]).get(instance_uuid)
    except errors.MinovaError as error:
        LOG.warning("The hardware of instance %s is not recorded yet: %s", instance_uuid, error)
        return None


def checked_file(image: Image, flavor: Flavor, fetch: Callable[[], Path | None]) -> Path | None:
    """Returns the file of an image from which an instance is to run. Raises ImageUnacceptable if the image does not fit
    the flavor, by its record before anything is fetched, or by its bytes.
    """
    _refuse(unfit(image, flavor), image)
    path = fetch()
    if path is not None:
        _refuse(unfit(image, flavor, inspect_once(path, image.disk_format).virtual_size), image)
    return path


def _refuse(reasons: tuple[str, ...], image: Image) -> None:
    """Raises ImageUnacceptable if there is any reason."""
    if reasons:
        raise errors.ImageUnacceptable(f"Image {image.id} does not fit the flavor: {'; '.join(reasons)}")
