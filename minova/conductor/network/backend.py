"""The one interface to the networks of servers, behind which are minova's own and a Neutron.

allocate: in the transaction that writes a server: its interfaces are rows from then on
bind:     its host has claimed it: what the host must know of each interface; with Neutron the ports are made and bound by then
unbind:   it has left its host
release:  in the transaction that ends it; what a service beside minova must be told is told afterwards, again and again
describe: its interfaces, of rows alone

`release` and `describe` are of rows, whichever service has a server's networks: `minova/db/networks/vifs.py`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.network.servers import Allocation, nics_of
from minova.objects.server_request import CreateServers
from minova.objects.vif import Vif

T = TypeVar("T")


class NetworkBackend(Protocol):
    def repeat(self, attempt: Callable[[], T]) -> T:
        """Runs the transaction that writes servers, and once more when what it lacked is made."""
        ...

    def lock(self, session: Session, creations: Sequence[Allocation]) -> Any:
        """What these creations need, for `allocate`. Raises NotFound of what has gone since the API has seen it."""
        ...

    def allocate(self, session: Session, creations: Sequence[Allocation], locked: Any) -> None:
        """Each server gets its interfaces. IpAddressGenerationFailure: too few addresses are left. PortInUse: another server has it."""
        ...

    def allocated(self, instance_uuids: Collection[str]) -> None:
        """After the transaction."""
        ...

    def bind(self, instance_uuid: str, attempt: int, host: str) -> tuple[Vif, ...]:
        """The interfaces as this host needs them. Idempotent.

        Raises StaleAttempt: the attempt is no longer that host's.
        Raises PortBindingFailed: the host cannot have one of them.
        """
        ...

    def unbind(self) -> None:
        """Those of servers that have left their hosts. Now and then, also after a crash."""
        ...


class Locked(NamedTuple):
    """By service, what its `lock` returned."""

    by_service: Mapping[str, Any]


class NetworkBackends:
    """By the service that a request names: `RequestedNic.service`. All interfaces of a request are of one service."""

    def __init__(self, backends: Mapping[str, NetworkBackend]) -> None:
        self._backends = backends

    def repeat(self, request: CreateServers, attempt: Callable[[], T]) -> T:
        """NetworkNotConfigured: this conductor is not configured for its service; nothing is written."""
        return self._of(request).repeat(attempt)

    def lock(self, session: Session, creations: Sequence[Allocation]) -> Locked:
        by_service = _by_service(creations)
        return Locked({service: self._backends[service].lock(session, those) for service, those in by_service.items()})

    def allocate(self, session: Session, creations: Sequence[Allocation], locked: Locked) -> None:
        for service, those in _by_service(creations).items():
            self._named(service).allocate(session, those, locked.by_service[service])

    def allocated(self, request: CreateServers, instance_uuids: Collection[str]) -> None:
        self._of(request).allocated(instance_uuids)

    def bind(self, service: str, instance_uuid: str, attempt: int, host: str) -> tuple[Vif, ...]:
        return self._named(service).bind(instance_uuid, attempt, host)

    def _of(self, request: CreateServers) -> NetworkBackend:
        return self._named(service_of(request))

    def _named(self, service: str) -> NetworkBackend:
        backend = self._backends.get(service)
        if backend is None:
            raise errors.NetworkNotConfigured("This conductor is not configured for the network service of the server.")
        return backend


def _by_service(creations: Sequence[Allocation]) -> dict[str, list[Allocation]]:
    """In the order in which services are locked."""
    found: dict[str, list[Allocation]] = {}
    for creation in creations:
        found.setdefault(service_of(creation.request), []).append(creation)
    return dict(sorted(found.items()))


def service_of(request: CreateServers) -> str:
    """Empty: minova's own networks, or none. BadRequest: its interfaces are of several services."""
    services = {nic.service for nic in nics_of(request)}
    if len(services) > 1:
        raise errors.BadRequest("The networks of a server are of one service.")
    return next(iter(services), "")
