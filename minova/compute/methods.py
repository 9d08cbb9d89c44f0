"""The RPC methods of a compute."""

import logging

import msgspec

from minova import errors
from minova.compute.actions.images import Snapshots
from minova.compute.actions.runner import InstanceActions
from minova.compute.adoptions import Adoptions
from minova.compute.images.precaching import Precaching
from minova.compute.instances.abandonment import ShutdownGate
from minova.compute.instances.background import Background
from minova.compute.instances.builds import Builder
from minova.compute.instances.interfaces import Interfaces
from minova.compute.instances.power_states import PowerStates
from minova.compute.instances.workers import GuestWorkers
from minova.compute.moves.runner import MoveRunner
from minova.compute.periodic.auditor import Auditor
from minova.compute.periodic.guest_reports import GuestReporter
from minova.compute.periodic.periodic_tasks import PeriodicTasks
from minova.compute.tracker.nodes import Nodes
from minova.context import RequestContext
from minova.contracts.compute import ComputeApi
from minova.contracts.conductor import ConductorApi
from minova.objects.actions.host_arguments import HostArguments
from minova.objects.actions.table import BY_KIND
from minova.objects.catalogue.image_caching import WantedImage
from minova.objects.guests.console import ConsoleAddress, ConsoleType
from minova.objects.guests.diagnostics import GuestDiagnostics
from minova.objects.hosts.node_audit import NodeAudit
from minova.objects.network.vif import GroupMembers
from minova.objects.servers.build import BuildMessage
from minova.objects.servers.failures import kind_of
from minova.objects.servers.instance import Instance
from minova.objects.servers.moves import MoveMessage
from minova.objects.servers.states import PowerState
from minova.virt.driver import ComputeDriver

LOG = logging.getLogger(__name__)


class ComputeCollaborators(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that a compute delegates to.

    `driver` and `conductor` pass through `gate`: once the gate is closed, work that did not end in time reaches neither
    of them. `own_driver` and `own_conductor` bypass the gate, for the steps that remain after it is closed.
    """

    gate: ShutdownGate
    driver: ComputeDriver
    conductor: ConductorApi
    own_driver: ComputeDriver
    own_conductor: ConductorApi
    workers: GuestWorkers
    background: Background
    nodes: Nodes
    power_states: PowerStates
    builder: Builder
    actions: InstanceActions
    moves: MoveRunner
    snapshots: Snapshots
    auditor: Auditor
    adoptions: Adoptions
    periodic_tasks: PeriodicTasks
    interfaces: Interfaces
    guest_reports: GuestReporter
    precaching: Precaching


class ComputeMethods(ComputeApi):
    """Implements `contracts.compute.ComputeApi`. Long work runs in the background."""

    def __init__(self, host: str, collaborators: ComputeCollaborators) -> None:
        self.host = host
        self.collaborators = collaborators
        self._driver = collaborators.driver
        self._conductor = collaborators.conductor
        self._workers = collaborators.workers
        self._background = collaborators.background
        self._builder = collaborators.builder
        self._actions = collaborators.actions
        self._auditor = collaborators.auditor

    def build_and_run_instance(self, ctx: RequestContext, build: BuildMessage) -> None:
        """Begin the build, unless this or a later attempt has begun here."""
        self._background.build(ctx, build)

    def build_and_run_instances(self, ctx: RequestContext, builds: tuple[BuildMessage, ...]) -> None:
        for build in builds:
            try:
                self.build_and_run_instance(ctx, build)
            except RuntimeError as error:
                LOG.warning("The build of instance %s could not begin: %s", build.instance.uuid, error)

    def refresh_interfaces(self, ctx: RequestContext) -> None:
        interfaces = self.collaborators.interfaces
        interfaces.request()
        self._background.run(ctx, ("interfaces", self.host), interfaces.refresh)

    def refresh_members(self, ctx: RequestContext, members: tuple[GroupMembers, ...]) -> None:
        interfaces = self.collaborators.interfaces
        interfaces.learn(members)
        self._background.run(ctx, ("interfaces", self.host), interfaces.refresh)

    def network_changed(self, ctx: RequestContext, instance_uuid: str) -> None:
        self._builder.vif_plug_waiter.changed(instance_uuid)

    def terminate_instance(self, ctx: RequestContext, instance_uuid: str, node: str | None) -> None:
        """Begin the removal, and end a build of the instance, if it is still to be deleted: the message may be late. The
        conductor requests a failed removal again.

        The question to the conductor waits for no other work, and holds no thread of the RPC server.
        """
        question = lambda: self._begin_removal(ctx, instance_uuid)  # noqa: E731
        self._background.ask(ctx, ("question before terminate", instance_uuid), question)

    def _begin_removal(self, ctx: RequestContext, instance_uuid: str) -> None:
        confirmed_at = self._builder.removals.confirmed_at(ctx, instance_uuid)
        if confirmed_at is None:
            return
        self._builder.cancel(instance_uuid)
        self._actions.cancel(instance_uuid)
        self.collaborators.moves.cancel(instance_uuid)
        self._workers.hurry(instance_uuid)
        self._background.run(
            ctx, ("terminate", instance_uuid), lambda: self._terminate(ctx, instance_uuid, confirmed_at)
        )

    def run_action(
        self, ctx: RequestContext, instance: Instance, action_id: int, kind: str, arguments: HostArguments
    ) -> None:
        """Run the action in the background. The same action runs only once at a time. It does not wait for a guest that an
        audit has asked to shut down.
        """
        action = BY_KIND.get(kind)
        if action is None:
            unknown = lambda: self._actions.refuse_unknown(ctx, instance.uuid, action_id, kind)  # noqa: E731
            self._background.run(ctx, (f"action {action_id} of {ctx.request_id}", instance.uuid), unknown)
            return
        self._builder.stops.cancel(instance.uuid)
        if action.ends_others:
            self._actions.cancel_before(ctx, instance.uuid, action_id)
        work = lambda: self._actions.run(ctx, action, instance, action_id, arguments)  # noqa: E731
        self._background.run(ctx, (f"action {action_id} of {ctx.request_id}", instance.uuid), work)

    def cancel_action(self, ctx: RequestContext, instance_uuid: str, action_id: int) -> None:
        """Does not wait for the work on the instance."""
        work = lambda: self._actions.give_up(ctx, instance_uuid, action_id)  # noqa: E731
        self._background.run(ctx, (f"cancel action {action_id} of {ctx.request_id}", f"cancel {instance_uuid}"), work)

    def run_move(self, ctx: RequestContext, move: MoveMessage) -> None:
        """Run the phase in the background. The same phase runs only once at a time."""
        self._builder.stops.cancel(move.instance.uuid)
        work = lambda: self.collaborators.moves.run(ctx, move)  # noqa: E731
        what = f"{move.phase} of attempt {move.migration.attempt} of migration {move.migration.uuid}"
        self._background.run(ctx, (what, move.instance.uuid), work)

    def cache_images(self, ctx: RequestContext, images: tuple[WantedImage, ...]) -> tuple[str, ...]:
        return self.collaborators.precaching.statuses(ctx.request_id, images)

    def get_console(self, ctx: RequestContext, instance_uuid: str, console_type: str) -> ConsoleAddress:
        try:
            return self._driver.console(instance_uuid, ConsoleType(console_type))
        except ValueError:
            raise errors.ConsoleTypeUnavailable(f"Unavailable console type {console_type[:32]}.") from None

    def get_console_output(self, ctx: RequestContext, instance_uuid: str, tail_length: int | None) -> str:
        return self._driver.console_output(instance_uuid, tail_length)

    def get_diagnostics(self, ctx: RequestContext, instance_uuid: str) -> GuestDiagnostics:
        """As in Nova, only a guest that runs has diagnostics."""
        state = self._driver.power_state(instance_uuid)
        if state is not None and state is not PowerState.RUNNING:
            raise errors.Conflict(
                f"Cannot 'get_diagnostics' instance {instance_uuid} while it is in power state {state.name.lower()}"
            )
        return self._driver.diagnostics(instance_uuid)

    def get_host_uptime(self, ctx: RequestContext) -> str:
        return self._driver.uptime()

    def audit_node(self, ctx: RequestContext, node: str) -> NodeAudit:
        return self._auditor.audit_node(ctx, node)

    def _terminate(self, ctx: RequestContext, instance_uuid: str, confirmed_at: float) -> None:
        try:
            self._builder.removals.terminate(ctx, instance_uuid, confirmed_at)
        except errors.ServiceUnavailable as error:  # no conductor received the report of the removal
            LOG.log(errors.level_of(error), "Removal of instance %s is not done yet: %s", instance_uuid, error)
        except Exception as error:
            LOG.warning(
                "Instance %s could not be removed: %s",
                instance_uuid,
                error,
                exc_info=not isinstance(error, errors.MinovaError),
            )
            self._report_failed_removal(ctx, instance_uuid, error)

    def _report_failed_removal(self, ctx: RequestContext, instance_uuid: str, error: Exception) -> None:
        reason, kind = str(error) or type(error).__name__, kind_of(error)
        try:
            self._conductor.delete_failed(ctx, instance_uuid=instance_uuid, host=self.host, reason=reason, kind=kind)
        except errors.MinovaError as unsent:  # an older conductor does not have this method
            LOG.warning("No conductor could be informed why instance %s is not removed: %s", instance_uuid, unsent)
