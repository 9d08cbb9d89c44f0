"""Calls of the API about servers."""

from typing import Any, Protocol

from minova.context import RequestContext
from minova.contracts.base import call
from minova.contracts.conductor.audiences import BY_API
from minova.objects.catalogue.key_pair import KeyPair
from minova.objects.requests.capacity import Capacity
from minova.objects.requests.diagnosis import ScheduleAnswer
from minova.objects.requests.server_request import CreatedServers, CreateServers, ServerRequest
from minova.objects.servers.server_changes import ServerChanges

# Fields of a ServerRequest that choose hosts.
_PLACE = {"request.requested_host": "1.7", "request.requested_node": "1.7", "request.requested_networks": "1.7"}
# Conductors of before know it in creations alone.
_PREVIEWED = {**_PLACE, "request.min_count": "1.9"}


@BY_API
class CreateServersApi(Protocol):
    @call(
        added={"key_pair": "1.7"},
        fields={
            **_PLACE,
            "request.config_drive": "1.7",
            "request.hostname": "1.7",
            "request.access_ip_v4": "1.7",
            "request.access_ip_v6": "1.7",
            "request.tags": "1.7",
            "request.disk_config": "1.7",
            "request.block_device_mapping": "1.7",
            "request.root_disk_tag": "1.7",
            "request.image.kernel": "1.9",
            "request.image.ramdisk": "1.9",
        },
        refused_when_disk_full=True,
    )
    def create_servers(
        self,
        ctx: RequestContext,
        *,
        request: CreateServers,
        key_pair: KeyPair | None = None,
    ) -> CreatedServers:
        """Write instances, specs, actions and tasks in one transaction; return before the servers are built. A repeated
        request with the same `request_uuid` gets the same answer.

        `key_pair`: the servers keep its text.

        Raises Conflict if the same `request_uuid` was used before with another body.
        """
        ...


@BY_API
class DryRunsApi(Protocol):
    @call(since="1.4", fields=_PREVIEWED, in_safe_mode=True)
    def preview_servers(self, ctx: RequestContext, *, request: ServerRequest) -> ScheduleAnswer:
        """Returns where the servers would be placed now, and why; writes nothing. A request that fits nowhere gets an
        answer, too. If the quota has less room than for `max_count`, it is about as many as a creation would make. Raises Forbidden if
        not even `min_count` fit.
        """
        ...

    @call(since="1.4", fields=_PREVIEWED, in_safe_mode=True)
    def capacity(self, ctx: RequestContext, *, request: ServerRequest, limit: int) -> Capacity:
        """Returns how many more servers of this request fit, counting at most `limit` on each host; writes nothing."""
        ...


@BY_API
class DeleteServersApi(Protocol):
    @call(added={"override_lock": "1.7", "force": "1.7"})
    def delete_server(
        self, ctx: RequestContext, *, instance_uuid: str, override_lock: bool = False, force: bool = False
    ) -> None:
        """Delete a server. If it is being deleted already, that is no error. With `reclaim_instance_interval` it can be
        restored for a while, unless `force` is set.

        `override_lock`, here and below: the API lets the caller change locked servers.

        Raises NotFound if there is no such server, Conflict if it is locked.
        """
        ...


@BY_API
class StartActionsApi(Protocol):
    @call(since="1.7")
    def start_action(
        self,
        ctx: RequestContext,
        *,
        instance_uuid: str,
        action: str,
        arguments: dict[str, Any] | None = None,
        override_lock: bool = False,
    ) -> None:
        """Begin a server action, one of the kinds in `objects/actions/table.py`, and return before it is done.
        `arguments`: those of the compute's method.

        Raises NotFound if there is no such server. Raises Conflict if its state does not allow the action, or its host
        is down. Raises BadRequest if there is no such action.
        """
        ...


@BY_API
class ServerAttributesApi(Protocol):
    @call(since="1.7", refused_when_disk_full=True)
    def update_server(
        self, ctx: RequestContext, *, instance_uuid: str, changes: ServerChanges, override_lock: bool = False
    ) -> None:
        """Raises NotFound if there is no such server. Raises Conflict if it is locked, or its state does not allow the
        change. Raises Forbidden if it would have too many items of metadata.
        """
        ...

    @call(since="1.7")
    def reset_server_state(self, ctx: RequestContext, *, instance_uuid: str, vm_state: str) -> None:
        """Set the state to active or error, without a task.

        Raises NotFound if there is no such server, BadRequest for any other state, Conflict if the server is being
        built, moved or deleted.
        """
        ...


@BY_API
class ServerPasswordsApi(Protocol):
    @call(since="1.7")
    def clear_server_password(self, ctx: RequestContext, *, instance_uuid: str) -> None:
        """Remove the password; the guest may then leave another one. Idempotent. Raises NotFound if there is no such
        server.
        """
        ...


@BY_API
class ConsoleTokensApi(Protocol):
    @call(since="1.7", refused_when_disk_full=True)
    def create_console_token(self, ctx: RequestContext, *, instance_uuid: str, console_type: str) -> str:
        """Returns a token that opens the console once, within `[consoleauth] token_ttl`.

        Raises NotFound if there is no such server, Conflict if it has no host, BadRequest if there is no such console.
        """
        ...
