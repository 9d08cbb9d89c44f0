"""A scheduler that claims for real and decides as told, and hosts that note what they are asked."""

from collections.abc import Callable

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.context import RequestContext
from minova.contracts.compute import ComputeApi
from minova.contracts.scheduler import SchedulerApi
from minova.db.engine import Database
from minova.objects.actions.host_arguments import HostArguments
from minova.objects.catalogue.image_caching import WantedImage
from minova.objects.guests.console import ConsoleAddress
from minova.objects.guests.diagnostics import GuestDiagnostics
from minova.objects.hosts.node_audit import NodeAudit
from minova.objects.network.vif import GroupMembers
from minova.objects.requests.capacity import Capacity
from minova.objects.requests.diagnosis import Diagnosis, FilterStep, ScheduleAnswer
from minova.objects.requests.request_spec import HostLimits, RequestSpec, Selection
from minova.objects.requests.resource_request import resource_alternatives
from minova.objects.servers.build import BuildMessage
from minova.objects.servers.instance import Instance
from minova.objects.servers.moves import MoveMessage
from minova.placement.allocations import claims as allocations
from tests.functional.scheduler.cloud import named


class FakeScheduler(SchedulerApi):
    """Gives each instance the hosts of `order`, the first as its host; claims for real. `mood` is raised instead."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.hosts = 3
        self.order: list[str] = []
        self.mood: Exception | None = None
        self.refuses_previews: str | None = None
        self.lose_answer = False
        self.asked: list[tuple[tuple[str, ...], int, int]] = []
        self.specs: list[RequestSpec] = []
        self.before_claim: Callable[[], None] = lambda: None
        self.before_answer: Callable[[], None] = lambda: None

    def select_destinations(
        self,
        ctx: RequestContext,
        spec: RequestSpec,
        instance_uuids: tuple[str, ...],
        claim_number: int,
        alternates: int,
    ) -> ScheduleAnswer:
        self.asked.append((instance_uuids, claim_number, alternates))
        self.specs.append(spec)
        if self.mood is not None:
            raise self.mood
        diagnosis = Diagnosis(request_id=ctx.request_id, instance_uuids=instance_uuids, hosts=self.hosts)
        if not self.order:
            lost = FilterStep(name="RamFilter", before=diagnosis.hosts, after=0)
            return ScheduleAnswer(diagnosis=msgspec.structs.replace(diagnosis, steps=(lost,), error="No host is left."))
        hosts = tuple(self._selection(host, spec) for host in self.order[: alternates + 1])
        self.before_claim()
        self._db.run(lambda session: self._claim(session, hosts[0], instance_uuids, claim_number))
        self.before_answer()
        if self.lose_answer:
            raise errors.ServiceUnavailable("No answer in time")
        return ScheduleAnswer(selections=tuple(hosts for _ in instance_uuids), diagnosis=diagnosis)

    def preview_destinations(
        self, ctx: RequestContext, spec: RequestSpec, instance_uuids: tuple[str, ...]
    ) -> ScheduleAnswer:
        """Yes, unless `refuses_previews` says why not, and notes what it was asked."""
        self.asked.append((instance_uuids, 0, 0))
        self.specs.append(spec)
        if self.mood is not None:
            raise self.mood
        error = self.refuses_previews
        diagnosis = Diagnosis(request_id=ctx.request_id, instance_uuids=instance_uuids, hosts=self.hosts, error=error)
        if error is not None:
            return ScheduleAnswer(diagnosis=diagnosis)
        hosts = (self._selection(self.order[0], spec),)
        return ScheduleAnswer(selections=tuple(hosts for _ in instance_uuids), diagnosis=diagnosis)

    def capacity(self, ctx: RequestContext, spec: RequestSpec, limit: int) -> Capacity:
        self.specs.append(spec)
        if self.mood is not None:
            raise self.mood
        return Capacity(total=self.hosts, limit=limit)

    def _selection(self, host: str, spec: RequestSpec) -> Selection:
        return Selection(
            host=host,
            node=f"{host}-node",
            provider_uuid=named(host),
            # The hosts have no dedicated CPUs: a pinned guest takes shared ones there.
            allocation=resource_alternatives(spec.flavor, spec.numa_topology)[-1],
            limits=HostLimits(memory_mb=4096.0),
        )

    def _claim(self, session: Session, where: Selection, uuids: tuple[str, ...], claim_number: int) -> None:
        claims = [
            allocations.AllocationClaim(
                consumer_uuid=uuid,
                claim_number=claim_number,
                provider_uuid=where.provider_uuid,
                resources=where.allocation,
            )
            for uuid in uuids
        ]
        assert allocations.claim(session, claims) == {}


class FakeHost(ComputeApi):
    """A compute that only notes what it is asked; tests report in its name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.builds: list[BuildMessage] = []
        self.terminated: list[str] = []
        self.actions: list[tuple[str, str, int]] = []
        # With `actions`: what the host got for each.
        self.arguments: list[HostArguments] = []
        self.instances: list[Instance] = []
        self.cancellations: list[tuple[str, int]] = []
        self.deaf = False
        self.old = False
        self.messages = 0
        self.refreshed = 0
        self.members: list[GroupMembers] = []
        self.network_changes: list[str] = []
        self.moves: list[MoveMessage] = []
        # What it answers of images, one answer after the other; then it has all of them.
        self.image_statuses: list[tuple[str, ...]] = []
        self.wanted_images: list[tuple[WantedImage, ...]] = []
        self.on_cache_images: Callable[[], None] = lambda: None

    def run_move(self, ctx: RequestContext, move: MoveMessage) -> None:
        self.moves.append(move)

    def cancel_action(self, ctx: RequestContext, instance_uuid: str, action_id: int) -> None:
        self.cancellations.append((instance_uuid, action_id))

    def network_changed(self, ctx: RequestContext, instance_uuid: str) -> None:
        self.network_changes.append(instance_uuid)

    def refresh_interfaces(self, ctx: RequestContext) -> None:
        self.refreshed += 1

    def refresh_members(self, ctx: RequestContext, members: tuple[GroupMembers, ...]) -> None:
        self.members.extend(members)

    def build_and_run_instances(self, ctx: RequestContext, builds: tuple[BuildMessage, ...]) -> None:
        if self.old:
            raise errors.PeerTooOld("build_and_run_instances needs compute 1.2")
        for build in builds:
            self.build_and_run_instance(ctx, build)
        self.messages += 1 - len(builds)

    def build_and_run_instance(self, ctx: RequestContext, build: BuildMessage) -> None:
        if self.deaf:
            raise errors.ServiceUnavailable("The message could not be delivered")
        self.builds.append(build)
        self.messages += 1

    def terminate_instance(self, ctx: RequestContext, instance_uuid: str, node: str | None) -> None:
        if self.deaf:
            raise errors.ServiceUnavailable("The message could not be delivered")
        self.terminated.append(instance_uuid)

    def run_action(
        self, ctx: RequestContext, instance: Instance, action_id: int, kind: str, arguments: HostArguments
    ) -> None:
        if self.old:
            raise errors.PeerTooOld("run_action needs compute 1.3")
        if self.deaf:
            raise errors.ServiceUnavailable("The message could not be delivered")
        if arguments.port_id:
            assert arguments.port_id in {vif.port_id for vif in instance.network_info}
        self.actions.append((kind, instance.uuid, action_id))
        self.arguments.append(arguments)
        self.instances.append(instance)

    def cache_images(self, ctx: RequestContext, images: tuple[WantedImage, ...]) -> tuple[str, ...]:
        if self.old:
            raise errors.PeerTooOld("cache_images needs compute 1.4")
        if self.deaf:
            raise errors.ServiceUnavailable("The message could not be delivered")
        self.wanted_images.append(images)
        self.on_cache_images()
        return self.image_statuses.pop(0) if self.image_statuses else tuple("existing" for _ in images)

    def get_console_output(self, ctx: RequestContext, instance_uuid: str, tail_length: int | None) -> str:
        raise errors.NotFound(instance_uuid)

    def get_console(self, ctx: RequestContext, instance_uuid: str, console_type: str) -> ConsoleAddress:
        raise errors.NotFound(instance_uuid)

    def get_diagnostics(self, ctx: RequestContext, instance_uuid: str) -> GuestDiagnostics:
        raise errors.NotFound(instance_uuid)

    def get_host_uptime(self, ctx: RequestContext) -> str:
        raise errors.NotFound("uptime")

    def audit_node(self, ctx: RequestContext, node: str) -> NodeAudit:
        raise errors.NotFound(node)
