"""The real conductor, whose background work is never done, so that it builds nothing: for tests of the API over a real
database. Work that needs hosts is done at once, as these would do it.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
from sqlalchemy.orm import Session

from minova import conf as configuration
from minova.cmd.conductor import make_manager
from minova.context import RequestContext
from minova.contracts.base import methods_of
from minova.contracts.conductor import ConductorApi
from minova.db import models, quotas
from minova.db.engine import Database
from minova.db.networks import ports
from minova.db.servers import actions as action_rows
from minova.db.servers import instances, request_specs
from minova.objects.actions.action import ServerAction
from minova.objects.actions.interfaces import ATTACH_INTERFACE, DETACH_INTERFACE
from minova.objects.actions.table import BY_KIND
from minova.objects.catalogue.key_pair import KeyPair
from minova.objects.requests.build_extras import NewInterface
from minova.objects.requests.capacity import Capacity
from minova.objects.requests.diagnosis import Diagnosis, ScheduleAnswer
from minova.objects.requests.evacuation import EvacuationRequest
from minova.objects.requests.server_request import CreatedServers, CreateServers, ServerRequest
from minova.objects.servers.failures import Failure
from tests.fakes.running_conductor import running


def now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


def _no_compute(host: str) -> Any:
    raise AssertionError("these tests send no messages to hosts")


class RowConductor:
    """`requests` are the creates that came; `before` is told each method first, and what it raises is raised; `after`,
    once the work is done, so that answers get lost. `preview` and `room` are what is answered to `previewed`.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        # The versions of contracts that every service serves, by topic.
        self.levels: dict[str, str] = {}
        manager = make_manager(
            configuration.new(),
            db,
            cast(Any, None),
            _no_compute,
            host="c",
            spawn=lambda work: None,
            levels=lambda: self.levels,
        )
        self._conductor = running(manager)
        self._attachments = manager.collaborators.interfaces._attachments
        self._security_groups = manager.collaborators.security_groups
        self.requests: list[CreateServers] = []
        self.key_pairs: list[KeyPair | None] = []
        self.deleted: list[str] = []
        self.forced: list[str] = []
        self.actions: list[tuple[str, str, dict[str, Any]]] = []
        # The request of the last of them.
        self.action_request = ""
        self.evacuated: list[tuple[str, EvacuationRequest]] = []
        self.ordered: list[tuple[str, str]] = []
        self.network_changes: list[tuple[str, str]] = []
        self.expected_ports: list[tuple[str, str]] = []
        self.previewed: list[ServerRequest] = []
        # Of what a host does at once: the kind of its failure.
        self.host_failure: str | None = None
        self.preview = ScheduleAnswer(diagnosis=Diagnosis(request_id="req-1", instance_uuids=(), hosts=0))
        self.room = Capacity(total=0, limit=0)
        self.before: Callable[[str], None] = lambda method: None
        self.after: Callable[[str], None] = lambda method: None

    def __getattr__(self, name: str) -> Any:
        """The method of the real conductor."""
        if name not in methods_of(ConductorApi):
            raise AttributeError(name)
        return lambda ctx, **arguments: self._do(name, lambda: getattr(self._conductor, name)(ctx, **arguments))

    def _do(self, method: str, work: Callable[[], Any]) -> Any:
        self.before(method)
        answer = work()
        self.after(method)
        return answer

    # -- what tests do -----------------------------------------------------------------------------------------------

    def edit(self, instance_uuid: str, **columns: Any) -> None:
        """As a compute's reports change a row. Without a task_state, its build or action has ended."""

        def work(session: Session) -> None:
            session.query(models.Instance).filter_by(uuid=instance_uuid).update(columns)  # type: ignore[arg-type]
            if columns.get("task_state", "") is None:
                session.query(models.Task).filter_by(instance_uuid=instance_uuid).delete()

        self._db.run(work)

    def add(self, *rows: Any) -> None:
        self._db.run(lambda session: session.add_all(rows))

    def add_diagnosis(self, uuids: Sequence[str], diagnosis: Diagnosis, at: datetime) -> None:
        self._db.run(lambda session: request_specs.add_diagnoses(session, [(diagnosis, uuids)], at))

    # -- what needs hosts --------------------------------------------------------------------------------------------

    def create_servers(
        self, ctx: RequestContext, request: CreateServers, key_pair: KeyPair | None = None, **more: Any
    ) -> CreatedServers:
        self.requests.append(request)
        self.key_pairs.append(key_pair)
        created: CreatedServers = self._do(
            "create_servers",
            lambda: self._conductor.create_servers(ctx, request=request, key_pair=key_pair, **more),
        )
        return created

    def preview_servers(self, ctx: RequestContext, request: ServerRequest) -> ScheduleAnswer:
        self.previewed.append(request)
        return self.preview

    def capacity(self, ctx: RequestContext, request: ServerRequest, limit: int) -> Capacity:
        self.previewed.append(request)
        return msgspec.structs.replace(self.room, limit=limit)

    def delete_server(self, ctx: RequestContext, instance_uuid: str, force: bool = False, **more: Any) -> None:
        self.deleted.append(instance_uuid)
        self.forced += [instance_uuid] if force else []

        def work(session: Session) -> None:
            gone: Any = {"vm_state": "deleted", "task_state": None, "deleted_at": now()}
            session.query(models.Instance).filter_by(uuid=instance_uuid).update(gone)
            gone_ports = sum(ports.release(session, [instance_uuid]).values())
            quotas.give_server(session, instance_uuid, {"ports": gone_ports})

        self._do("delete_server", lambda: self._db.run(work))

    def evacuate_server(
        self, ctx: RequestContext, instance_uuid: str, request: EvacuationRequest, override_lock: bool = False
    ) -> None:
        self.evacuated.append((instance_uuid, request))

    def preview_evacuation(
        self, ctx: RequestContext, instance_uuid: str, request: EvacuationRequest, override_lock: bool = False
    ) -> ScheduleAnswer:
        self.evacuated.append((instance_uuid, request))
        return self.preview

    def cancel_move(
        self, ctx: RequestContext, instance_uuid: str, migration_uuid: str, override_lock: bool = False
    ) -> None:
        self.ordered.append(("cancel", migration_uuid))

    def force_complete_migration(
        self, ctx: RequestContext, instance_uuid: str, migration_uuid: str, override_lock: bool = False
    ) -> None:
        self.ordered.append(("force complete", migration_uuid))

    def preview_move(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        action: str,
        arguments: dict[str, Any],
        override_lock: bool = False,
    ) -> ScheduleAnswer:
        self.actions.append((instance_uuid, action, arguments))
        return self.preview

    def start_action(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        action: str,
        arguments: dict[str, Any] | None = None,
        override_lock: bool = False,
    ) -> None:
        self.actions.append((instance_uuid, action, arguments or {}))
        self.action_request = ctx.request_id
        progress = BY_KIND[action].progress

        def work(session: Session) -> None:
            if progress:
                row = session.query(models.Instance).filter_by(uuid=instance_uuid)
                row.update({"task_state": progress[0].value})
            if BY_KIND[action] in (ATTACH_INTERFACE, DETACH_INTERFACE):
                self._change_interface(session, ctx, instance_uuid, BY_KIND[action], arguments or {})
            elif BY_KIND[action].secret:
                self._end_action(session, ctx, instance_uuid, BY_KIND[action])

        if action == ATTACH_INTERFACE.kind:
            self._security_groups.ensure_default([ctx.project_id])
            self._db.run(lambda session: quotas.count_first(session, ctx.project_id))
        self._do("start_action", lambda: self._db.run(work))

    def _change_interface(
        self, session: Session, ctx: RequestContext, instance_uuid: str, action: ServerAction, arguments: dict[str, Any]
    ) -> None:
        """As its host would have it, at once; with a `host_failure` not at all."""
        if action is ATTACH_INTERFACE:
            instance = instances.lock(session, [instance_uuid])[instance_uuid]
            port_id = self._attachments.attach(session, instance, msgspec.convert(arguments["interface"], NewInterface))
        else:
            port_id = arguments["port_id"]
            self._attachments.require(session, instance_uuid, port_id)
        if (action is DETACH_INTERFACE) == (self.host_failure is None):
            self._attachments.release(session, instance_uuid, port_id)
        self._end_action(session, ctx, instance_uuid, action)

    def _end_action(self, session: Session, ctx: RequestContext, instance_uuid: str, action: ServerAction) -> None:
        """As its host would have it, at once."""
        row: dict[str, Any] = {"instance_uuid": instance_uuid, "action": action.name, "request_id": ctx.request_id}
        row |= {"user_id": ctx.user_id, "project_id": ctx.project_id, "start_time": now()}
        action_id = action_rows.begin(session, [row])[instance_uuid]
        action_rows.begin_events(
            session, [{"action_id": action_id, "host": "h", "start_time": now()}], event=action.event
        )
        kind = self.host_failure
        failure = Failure(kind=kind, details="of the host", text="why") if kind is not None else None
        action_rows.end(session, [action_id], now(), error=failure)

    def expect_port(self, ctx: RequestContext, instance_uuid: str, network_id: str) -> None:
        self.before("expect_port")
        self.expected_ports.append((instance_uuid, network_id))

    def network_changed(self, ctx: RequestContext, instance_uuid: str, host: str) -> None:
        self.before("network_changed")
        self.network_changes.append((instance_uuid, host))

    def create_console_token(self, ctx: RequestContext, instance_uuid: str, console_type: str) -> str:
        return f"token-of-{console_type}"
