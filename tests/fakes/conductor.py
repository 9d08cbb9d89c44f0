"""A conductor that keeps its books in dicts: for tests of a compute without a database."""

import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from minova import errors
from minova.context import RequestContext
from minova.contracts.conductor.computes.actions import ActionReportsApi
from minova.contracts.conductor.computes.audits import AuditsApi
from minova.contracts.conductor.computes.builds import BuildReportsApi, RemovalReportsApi
from minova.contracts.conductor.computes.guests import GuestReportsApi
from minova.contracts.conductor.computes.images import ImageTokensApi
from minova.contracts.conductor.computes.secrets import GuestSecretsApi
from minova.contracts.conductor.services import ServicesApi
from minova.objects.actions.action import ServerAction
from minova.objects.actions.guest_changes import LastAction
from minova.objects.actions.power_rules import OFF
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.guests.guest_secrets import GuestSecrets, SecretKind, TpmState
from minova.objects.hosts.cloud import CloudState, WitnessRecord
from minova.objects.hosts.compute_node import AvailableResources, ComputeNode, Inventory
from minova.objects.hosts.node_audit import NodeAudit
from minova.objects.hosts.numa import InstanceNUMATopology
from minova.objects.hosts.service import Service, ServiceInstructions
from minova.objects.requests.request_spec import HostLimits, RequestSpec
from minova.objects.servers.build import (
    AuditInputs,
    BuildMessage,
    BuildReport,
    HostInstances,
    InstanceClaim,
    ReportAnswer,
)
from minova.objects.servers.chosen_hardware import ChosenHardware
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import RESOURCE_FREE, PowerState, TaskState, VmState
from minova.objects.unexpected.guest_record import GuestMark, GuestRecord, GuestsAnswer

T = TypeVar("T")

UNLIMITED = HostLimits()
replace = msgspec.structs.replace


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A build that a host reported as failed."""

    instance_uuid: str
    attempt: int
    host: str
    reason: str
    retriable: bool
    kind: str


class _Open(msgspec.Struct, frozen=True, kw_only=True):
    message: BuildMessage
    host: str


def nothing(method: str) -> None:
    """The hook that does nothing."""


class FakeConductor(
    AuditsApi,
    BuildReportsApi,
    RemovalReportsApi,
    ActionReportsApi,
    ImageTokensApi,
    GuestSecretsApi,
    GuestReportsApi,
    ServicesApi,
):
    """`on_call` is told each method before it works, `on_answer` after: what they raise is raised to the caller, so
    that a request or an answer gets lost. Arguments after the context go by name, as over RPC.
    """

    def __init__(self) -> None:
        self.on_call: Callable[[str], None] = nothing
        self.on_answer: Callable[[str], None] = nothing
        self.calls: list[str] = []
        self.services: dict[tuple[str, str], Service] = {}
        self.nodes: dict[tuple[str, str], ComputeNode] = {}
        self.inventories: dict[str, tuple[Inventory, ...]] = {}
        self.traits: dict[str, tuple[str, ...]] = {}
        self.audits: dict[str, NodeAudit | None] = {}
        self.deleted_for = 0.0  # seconds since any deleted instance was deleted
        self.instances: dict[str, Instance] = {}
        self.reasons: dict[str, str] = {}
        self.open: dict[str, _Open] = {}
        # Whether the host is forced down.
        self.fenced = False
        self.failures: list[Failure] = []
        self.purged: set[str] = set()
        self.guests: tuple[GuestMark, ...] = ()
        self.guests_answer = GuestsAnswer()
        self.guest_records: list[GuestRecord] = []
        self.report_numbers: list[int] = []
        self.delete_failures: list[tuple[str, str, str]] = []
        self.steps: list[tuple[str, int, str]] = []
        self.tpm_states: dict[str, TpmState] = {}
        self.actions: dict[str, tuple[int, ServerAction]] = {}
        self.last_actions: dict[str, LastAction] = {}
        self.forced: list[int] = []  # actions that have forced their guests
        self.agent_reasons: list[str] = []  # of failed actions
        self.progressed: list[str] = []
        # `again` of each `begin_action`
        self.begun: list[bool] = []
        self.action_failures: list[tuple[str, int, str]] = []
        self.untouched: list[bool] = []
        self.kept_disks: list[bool] = []
        self.failed_power_states: list[int | None] = []
        self.heartbeat_interval = 10.0
        self.cloud: CloudState | None = None
        self.audit_interval = 0.0
        self._lock = threading.RLock()

    def _serve(self, method: str, work: Callable[[], T]) -> T:
        self.calls.append(method)
        self.on_call(method)
        with self._lock:
            answer = work()
        self.on_answer(method)
        return answer

    # -- what tests do ---------------------------------------------------------------------------------------------

    def commit_build(
        self,
        instance_uuid: str,
        host: str,
        node: str,
        flavor: Flavor,
        *,
        limits: HostLimits = UNLIMITED,
        image: Image | None = None,
    ) -> BuildMessage:
        """A new attempt of the instance, made on first use, committed to a host."""
        with self._lock:
            former_instance = self.instances.get(instance_uuid) or Instance(
                uuid=instance_uuid, display_name="vm", flavor=flavor, project_id="p", image=image
            )
            instance = replace(former_instance, attempt=former_instance.attempt + 1, task_state=TaskState.SCHEDULING)
            message = BuildMessage(
                instance=instance,
                attempt=instance.attempt,
                node=node,
                limits=limits,
                request_spec=RequestSpec(flavor=flavor, image=image),
            )
            self.instances[instance_uuid] = instance
            self.open[instance_uuid] = _Open(message=message, host=host)
            return message

    def give_up(self, instance_uuid: str) -> None:
        """The attempt is no longer its host's, as after a time-out."""
        with self._lock:
            del self.open[instance_uuid]
            self.change(instance_uuid, host=None, node=None, vm_state=VmState.ERROR, task_state=None)

    def begin_delete(self, instance_uuid: str) -> str | None:
        """Answers the host to ask."""
        with self._lock:
            task = self.open.pop(instance_uuid, None)
            self.change(instance_uuid, task_state=TaskState.DELETING)
            return self.instances[instance_uuid].host or (task.host if task is not None else None)

    def end_action(self, instance_uuid: str) -> None:
        """As after action_timeout: the instance is as before."""
        with self._lock:
            self.actions.pop(instance_uuid, None)
            self.change(instance_uuid, task_state=None)

    def is_away(self, method: str) -> None:
        """For `on_call`."""
        raise errors.ServiceUnavailable(f"No answer to {method}")

    def commit_action(self, instance_uuid: str, action: ServerAction, action_id: int = 1) -> Instance:
        """The action is in progress. Answers the instance as the message has it."""
        with self._lock:
            self.actions[instance_uuid] = (action_id, action)
            self.last_actions[instance_uuid] = LastAction(number=action_id)
            return self.change(instance_uuid, task_state=next(iter(action.progress), None))

    def change(self, instance_uuid: str, **changes: Any) -> Instance:
        instance = self.instances[instance_uuid] = replace(self.instances[instance_uuid], **changes)
        return instance

    def _fence(self, instance_uuid: str, attempt: int, host: str) -> _Open:
        task = self.open.get(instance_uuid)
        if task is None or task.message.attempt != attempt or task.host != host:
            raise errors.StaleAttempt(f"Attempt {attempt} of instance {instance_uuid} is not of host {host} any more")
        return task

    # -- what every service asks -----------------------------------------------------------------------------------

    def register_service(self, ctx: RequestContext, *, service: Service) -> ServiceInstructions:
        def work() -> ServiceInstructions:
            self.services[service.host, service.binary] = service
            return self._instructions(service.uuid)

        return self._serve("register_service", work)

    def heartbeat(
        self, ctx: RequestContext, *, host: str, binary: str, down_reason: str | None = None
    ) -> ServiceInstructions:
        def work() -> ServiceInstructions:
            former_service = self.services.get((host, binary))
            if former_service is None:
                raise errors.NotFound(f"Service {binary} of {host}")
            self.services[host, binary] = replace(former_service, down_reason=down_reason)
            return self._instructions(former_service.uuid)

        return self._serve("heartbeat", work)

    def service_has_seen(
        self, ctx: RequestContext, *, host: str, binary: str, seen: WitnessRecord
    ) -> CloudState | None:
        return self._serve("service_has_seen", lambda: self.cloud)

    def service_stopped(self, ctx: RequestContext, *, host: str, binary: str, process: str) -> None:
        self._serve("service_stopped", lambda: self.services.pop((host, binary), None))

    def _instructions(self, service_uuid: str) -> ServiceInstructions:
        return ServiceInstructions(
            service_uuid=service_uuid,
            heartbeat_interval=self.heartbeat_interval,
            audit_interval=self.audit_interval,
            cloud=self.cloud,
        )

    # -- nodes -----------------------------------------------------------------------------------------------------

    def instances_of_host(self, ctx: RequestContext, *, host: str) -> HostInstances:
        return self._serve(
            "instances_of_host",
            lambda: HostInstances(
                fenced=self.fenced,
                instances=tuple(instance for instance in self.instances.values() if self._on(instance, host)),
                attempts=tuple(task.message for task in self._open_on(host)),
            ),
        )

    def report_guests(
        self, ctx: RequestContext, *, host: str, guests: tuple[GuestMark, ...], number: int = 0
    ) -> GuestsAnswer:
        def work() -> GuestsAnswer:
            self.guests = guests
            self.report_numbers.append(number)
            return self.guests_answer

        return self._serve("report_guests", work)

    def report_guest_records(
        self, ctx: RequestContext, *, host: str, records: tuple[GuestRecord, ...], number: int = 0
    ) -> None:
        def work() -> None:
            self.guest_records.extend(records)
            self.report_numbers.append(number)

        self._serve("report_guest_records", work)

    def begin_audit(self, ctx: RequestContext, *, host: str, view: AvailableResources) -> AuditInputs:
        node = view.hypervisor_hostname
        return self._serve(
            "begin_audit",
            lambda: AuditInputs(
                purged=tuple(domain.uuid for domain in view.domains if domain.uuid in self.purged),
                node=self.nodes.get((host, node)),
                instances=tuple(
                    instance
                    for instance in self.instances.values()
                    if self._on(instance, host) and instance.node == node
                ),
                attempts=tuple(task.message for task in self._open_on(host) if task.message.node == node),
                unexpected_domains=(
                    unexpected := tuple(
                        domain.uuid for domain in view.domains if self._is_unexpected(domain.uuid, host)
                    )
                ),
                deleted={uuid: self.deleted_for for uuid in unexpected if self._deleted(uuid)},
                host_nodes=tuple(name for on, name in self.nodes if on == host),
            ),
        )

    def finish_audit(
        self,
        ctx: RequestContext,
        *,
        node: ComputeNode,
        inventories: tuple[Inventory, ...],
        traits: tuple[str, ...] = (),
        found: NodeAudit | None = None,
    ) -> ComputeNode:
        def work() -> ComputeNode:
            self.audits[node.uuid] = found
            self.inventories[node.uuid], self.traits[node.uuid] = inventories, traits
            return self._write_node(node, make=True)

        return self._serve("finish_audit", work)

    def save_compute_node(self, ctx: RequestContext, *, node: ComputeNode) -> ComputeNode:
        return self._serve("save_compute_node", lambda: self._write_node(node))

    def delete_compute_nodes(self, ctx: RequestContext, *, host: str, nodes: tuple[str, ...]) -> None:
        def work() -> None:
            for name in nodes:
                row = self.nodes.pop((host, name), None)
                if row is not None:
                    self.inventories.pop(row.uuid, None)

        self._serve("delete_compute_nodes", work)

    @staticmethod
    def _on(instance: Instance, host: str) -> bool:
        return instance.host == host and instance.vm_state not in RESOURCE_FREE

    def _open_on(self, host: str) -> list[_Open]:
        return [task for task in self.open.values() if task.host == host]

    def _is_unexpected(self, instance_uuid: str, host: str) -> bool:
        instance = self.instances.get(instance_uuid)
        if instance is None:
            return False
        task = self.open.get(instance_uuid)
        return not self._on(instance, host) and (task is None or task.host != host)

    def _deleted(self, instance_uuid: str) -> bool:
        return self.instances[instance_uuid].vm_state is VmState.DELETED

    def _write_node(self, node: ComputeNode, *, make: bool = False) -> ComputeNode:
        key = (node.host, node.hypervisor_hostname)
        row = self.nodes.get(key)
        if row is None and not make:
            raise errors.NotFound(f"Compute node {node.hypervisor_hostname} of {node.host}")
        number, generation = (row.id, row.generation) if row is not None else (len(self.nodes) + 1, 0)
        if row is None or replace(node, id=number, generation=generation) != row:
            generation += 1
        self.nodes[key] = replace(node, id=number, generation=generation)
        return self.nodes[key]

    # -- instances -------------------------------------------------------------------------------------------------

    def claim_instance(
        self,
        ctx: RequestContext,
        *,
        instance_uuid: str,
        attempt: int,
        node: ComputeNode,
        numa_topology: InstanceNUMATopology | None = None,
        step: str | None = None,
    ) -> Instance:
        def work() -> Instance:
            claimed = self._claim(instance_uuid, attempt, node, numa_topology, step)
            self._write_node(node, make=True)
            return claimed

        return self._serve("claim_instance", work)

    def claim_instances(
        self, ctx: RequestContext, *, claims: tuple[InstanceClaim, ...], node: ComputeNode
    ) -> tuple[ReportAnswer, ...]:
        def work() -> tuple[ReportAnswer, ...]:
            self._write_node(node, make=True)
            return tuple(answers())

        def answers() -> Iterator[ReportAnswer]:
            for claim in claims:
                try:
                    instance = self._claim(claim.instance_uuid, claim.attempt, node, claim.numa_topology, claim.step)
                    yield ReportAnswer(instance=instance)
                except errors.StaleAttempt as error:
                    yield ReportAnswer(stale=str(error))

        return self._serve("claim_instances", work)

    def _claim(
        self,
        instance_uuid: str,
        attempt: int,
        node: ComputeNode,
        numa_topology: InstanceNUMATopology | None,
        step: str | None,
    ) -> Instance:
        self._fence(instance_uuid, attempt, node.host)
        return self.change(
            instance_uuid,
            host=node.host,
            node=node.hypervisor_hostname,
            vm_state=VmState.BUILDING,
            task_state=TaskState(step or TaskState.BLOCK_DEVICE_MAPPING),
            numa_topology=numa_topology,
        )

    def begin_attempt(self, ctx: RequestContext, *, instance_uuid: str, attempt: int, host: str, step: str) -> None:
        self._serve("begin_attempt", lambda: self._begin(instance_uuid, attempt, host, step))

    def _begin(self, instance_uuid: str, attempt: int, host: str, step: str) -> None:
        self._fence(instance_uuid, attempt, host)
        self.steps.append((instance_uuid, attempt, str(step)))
        self.change(instance_uuid, task_state=TaskState(step))

    def image_token(self, ctx: RequestContext, *, instance_uuid: str, image_id: str, host: str) -> str:
        return self._serve("image_token", lambda: f"token for {image_id} on {host}")

    def image_upload_token(self, ctx: RequestContext, *, instance_uuid: str, image_id: str, host: str) -> str:
        return self._serve("image_upload_token", lambda: f"upload token for {image_id} on {host}")

    def guest_secrets(
        self, ctx: RequestContext, *, host: str, instance_uuid: str, kinds: tuple[SecretKind, ...], make: bool = False
    ) -> GuestSecrets:
        state = self.tpm_states.get(instance_uuid)
        guest_secrets = GuestSecrets(
            passphrases={kind: f"{kind} of {instance_uuid}" for kind in kinds}, tpm_state=state
        )
        return self._serve("guest_secrets", lambda: guest_secrets)

    def keep_tpm_state(
        self, ctx: RequestContext, *, host: str, instance_uuid: str, state: TpmState | None = None
    ) -> None:
        def keep() -> None:
            self.tpm_states.pop(instance_uuid, None)
            if state is not None:
                self.tpm_states[instance_uuid] = state

        self._serve("keep_tpm_state", keep)

    def build_succeeded(
        self,
        ctx: RequestContext,
        *,
        instance_uuid: str,
        attempt: int,
        host: str,
        power_state: int,
        node: ComputeNode | None = None,
        rebuilt: bool = False,
        hardware: ChosenHardware | None = None,
    ) -> None:
        def work() -> None:
            self._succeed(instance_uuid, attempt, host, power_state, hardware)
            if node is not None:
                self._write_node(node)

        self._serve("build_succeeded", work)

    def report_builds(
        self,
        ctx: RequestContext,
        *,
        reports: tuple[BuildReport, ...],
        host: str,
        nodes: tuple[ComputeNode, ...] = (),
    ) -> tuple[ReportAnswer, ...]:
        for node in nodes:
            self._write_node(node)

        def answers() -> Iterator[ReportAnswer]:
            for report in reports:
                try:
                    if report.step is not None:
                        self._begin(report.instance_uuid, report.attempt, host, report.step)
                    else:
                        self._succeed(report.instance_uuid, report.attempt, host, report.power_state, report.hardware)
                    yield ReportAnswer()
                except errors.StaleAttempt as error:
                    yield ReportAnswer(stale=str(error))

        return self._serve("report_builds", lambda: tuple(answers()))

    def _succeed(
        self, instance_uuid: str, attempt: int, host: str, power_state: int, hardware: ChosenHardware | None
    ) -> None:
        former_instance = self.instances[instance_uuid]
        if former_instance.vm_state is VmState.ACTIVE and (former_instance.attempt, former_instance.host) == (
            attempt,
            host,
        ):
            return
        self._fence(instance_uuid, attempt, host)
        del self.open[instance_uuid]
        recorded = hardware.recorded if hardware is not None else {}
        self.change(
            instance_uuid,
            vm_state=VmState.ACTIVE,
            task_state=None,
            power_state=PowerState(power_state),
            system_metadata={**former_instance.system_metadata, **recorded},
        )

    def build_failed(
        self,
        ctx: RequestContext,
        *,
        instance_uuid: str,
        attempt: int,
        host: str,
        reason: str,
        retriable: bool,
        kind: str = "",
    ) -> None:
        def work() -> None:
            try:
                self._fence(instance_uuid, attempt, host)
            except errors.StaleAttempt:
                return
            self.failures.append(
                Failure(
                    instance_uuid=instance_uuid,
                    attempt=attempt,
                    host=host,
                    reason=reason,
                    retriable=retriable,
                    kind=kind,
                )
            )
            self.give_up(instance_uuid)

        self._serve("build_failed", work)

    def hosts_of_instances(self, ctx: RequestContext, *, instance_uuids: tuple[str, ...]) -> dict[str, str | None]:
        def work() -> dict[str, str | None]:
            return {uuid: self.instances[uuid].host for uuid in instance_uuids if uuid in self.instances}

        return self._serve("hosts_of_instances", work)

    def begin_removal(self, ctx: RequestContext, *, instance_uuid: str, host: str) -> None:
        def work() -> None:
            former_instance = self.instances.get(instance_uuid)
            if former_instance is None or not (
                former_instance.task_state is TaskState.DELETING or former_instance.vm_state is VmState.DELETED
            ):
                raise errors.StaleAttempt(f"Instance {instance_uuid} is not being deleted, and stays on {host}")

        self._serve("begin_removal", work)

    def instance_deleted(self, ctx: RequestContext, *, instance_uuid: str, host: str) -> None:
        def work() -> None:
            former_instance = self.instances.get(instance_uuid)
            if former_instance is not None and former_instance.task_state is TaskState.DELETING:
                self.change(instance_uuid, vm_state=VmState.DELETED, task_state=None, deleted=True)

        self._serve("instance_deleted", work)

    def delete_failed(self, ctx: RequestContext, *, instance_uuid: str, host: str, reason: str, kind: str = "") -> None:
        self._serve("delete_failed", lambda: self.delete_failures.append((instance_uuid, host, reason)))

    def begin_action(
        self,
        ctx: RequestContext,
        *,
        instance_uuid: str,
        action_id: int,
        host: str,
        again: bool = False,
        request_id: str = "",
    ) -> None:
        def work() -> None:
            if self._action(instance_uuid, action_id, host) is None:
                raise errors.StaleAttempt(f"Action {action_id} is not in progress")
            self.begun.append(again)

        self._serve("begin_action", work)

    def action_progressed(
        self,
        ctx: RequestContext,
        *,
        instance_uuid: str,
        action_id: int,
        host: str,
        task_state: str,
        request_id: str = "",
    ) -> None:
        def work() -> None:
            if self._action(instance_uuid, action_id, host) is None:
                raise errors.StaleAttempt(f"Action {action_id} is not in progress")
            if task_state:
                self.change(instance_uuid, task_state=TaskState(task_state))
            self.progressed.append(task_state)

        self._serve("action_progressed", work)

    def action_succeeded(
        self,
        ctx: RequestContext,
        *,
        instance_uuid: str,
        action_id: int,
        host: str,
        power_state: int,
        kept: bool = False,
        forced: bool = False,
        hardware: ChosenHardware | None = None,
        request_id: str = "",
    ) -> None:
        def work() -> None:
            action = self._action(instance_uuid, action_id, host)
            if action is not None:
                del self.actions[instance_uuid]
                if forced:
                    self.forced.append(action_id)
                state = PowerState(power_state)
                vm_state = action.after_success(self.instances[instance_uuid].vm_state)
                self.change(instance_uuid, vm_state=vm_state, task_state=None, power_state=state)
                if vm_state is VmState.SHELVED_OFFLOADED:
                    self.change(instance_uuid, host=None, node=None)

        self._serve("action_succeeded", work)

    def action_failed(
        self,
        ctx: RequestContext,
        *,
        instance_uuid: str,
        action_id: int,
        host: str,
        reason: str,
        kind: str = "",
        power_state: int | None = None,
        untouched: bool = False,
        agent_reason: str = "",
        kept_disks: bool = False,
        request_id: str = "",
    ) -> None:
        def work() -> None:
            if self._action(instance_uuid, action_id, host) is not None:
                self.agent_reasons.append(agent_reason)
                del self.actions[instance_uuid]
                self.change(instance_uuid, task_state=None)
                self.action_failures.append((instance_uuid, action_id, reason))
                self.failed_power_states.append(power_state)
                self.untouched.append(untouched)
                self.kept_disks.append(kept_disks)

        self._serve("action_failed", work)

    def _action(self, instance_uuid: str, action_id: int, host: str) -> ServerAction | None:
        former_instance, instance = self.actions.get(instance_uuid), self.instances.get(instance_uuid)
        if former_instance is None or instance is None or (former_instance[0], instance.host) != (action_id, host):
            return None
        return (
            former_instance[1] if former_instance[1].is_in_progress((instance.vm_state, instance.task_state)) else None
        )

    def record_hardware(self, ctx: RequestContext, *, host: str, chosen: dict[str, ChosenHardware]) -> None:
        def work() -> None:
            for instance_uuid, hardware in chosen.items():
                former_instance = self.instances.get(instance_uuid)
                if former_instance is not None and former_instance.host == host and former_instance.task_state is None:
                    self.change(instance_uuid, system_metadata={**former_instance.system_metadata, **hardware.recorded})

        self._serve("record_hardware", work)

    def report_power_states(
        self,
        ctx: RequestContext,
        *,
        host: str,
        states: dict[str, int],
        reasons: dict[str, str] | None = None,
        after: dict[str, LastAction] | None = None,
    ) -> dict[str, LastAction] | None:
        def work() -> dict[str, LastAction] | None:
            self.reasons.update(reasons or {})
            unproved = {}
            for instance_uuid, state in states.items():
                former_instance = self.instances.get(instance_uuid)
                if former_instance is None or former_instance.host != host or former_instance.task_state is not None:
                    continue
                stopped = former_instance.vm_state is VmState.ACTIVE and state in OFF
                if (
                    stopped
                    and after is not None
                    and after.get(instance_uuid) != self.last_actions.get(instance_uuid, LastAction())
                ):
                    unproved[instance_uuid] = self.last_actions.get(instance_uuid, LastAction())
                    continue
                vm_state = VmState.STOPPED if stopped else former_instance.vm_state
                self.change(instance_uuid, power_state=PowerState(state), vm_state=vm_state)
            return None if after is None else unproved

        return self._serve("report_power_states", work)
