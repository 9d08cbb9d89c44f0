"""The common interface to the networks of servers. Its implementations are minova's own networks and Neutron.

allocate: in the transaction that writes a server: writes the rows of its interfaces
bind:     after its host has claimed it: returns what the host must know of each interface; Neutron's ports are made and
          bound before
unbind:   after it has left its host
release:  in the transaction that deletes it; afterwards an external service is updated, with repetitions until that
          succeeds
describe: returns its interfaces, from rows alone

`release` and `describe` only use rows, so they are the same for each service: `minova/db/networks/vifs.py`.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.network.servers import InterfaceAllocation
from minova.objects.network.vif import Vif
from minova.objects.requests.server_request import CreateServers
from minova.races import Races


class NetworkBackend(Protocol):
    @property
    def races(self) -> Races:
        """The races that the transaction that writes servers can lose because of their networks."""
        ...

    def lock(self, session: Session, creations: Sequence[InterfaceAllocation]) -> Any:
        """Locks and returns what `allocate` needs for these creations. Raises NotFound errors for what was deleted
        since the API has seen it.
        """
        ...

    def allocate(self, session: Session, creations: Sequence[InterfaceAllocation], locked: Any) -> None:
        """Gives each server its interfaces. Raises IpAddressGenerationFailure if too few addresses are left, PortInUse
        if another server has the port.
        """
        ...

    def allocated(self, instance_uuids: Collection[str]) -> None:
        """Called after the transaction."""
        ...

    def bind(self, instance_uuid: str, attempt: int, host: str) -> tuple[Vif, ...]:
        """Returns the interfaces as this host needs them. Idempotent.

        Raises StaleAttempt if the attempt is no longer that host's. Raises PortBindingFailed if the host cannot have
        one of them.
        """
        ...

    def unbind(self) -> None:
        """Unbinds the interfaces of servers that have left their hosts. Called periodically, which covers crashes,
        too.
        """
        ...


class BackendLocks(NamedTuple):
    """The results of `lock` of each service."""

    by_service: Mapping[str, Any]


class NetworkBackends:
    """Selects the backend by the service that a request names: `RequestedNic.service`. All interfaces of a request are
    of one service.
    """

    def __init__(self, backends: Mapping[str, NetworkBackend]) -> None:
        self._backends = backends

    def races(self, request: CreateServers) -> Races:
        """Returns the races of the backend. Raises NetworkNotConfigured if this conductor is not configured for the
        request's service.
        """
        return self._of(request).races

    def lock(self, session: Session, creations: Sequence[InterfaceAllocation]) -> BackendLocks:
        by_service = _by_service(creations)
        return BackendLocks(
            {service: self._backends[service].lock(session, of_service) for service, of_service in by_service.items()}
        )

    def allocate(self, session: Session, creations: Sequence[InterfaceAllocation], locked: BackendLocks) -> None:
        for service, of_service in _by_service(creations).items():
            self._backend_of(service).allocate(session, of_service, locked.by_service[service])

    def allocated(self, request: CreateServers, instance_uuids: Collection[str]) -> None:
        self._of(request).allocated(instance_uuids)

    def bind(self, service: str, instance_uuid: str, attempt: int, host: str) -> tuple[Vif, ...]:
        return self._backend_of(service).bind(instance_uuid, attempt, host)

    def _of(self, request: CreateServers) -> NetworkBackend:
        return self._backend_of(service_of(request))

    def _backend_of(self, service: str) -> NetworkBackend:
        backend = self._backends.get(service)
        if backend is None:
            raise errors.NetworkNotConfigured("This conductor is not configured for the network service of the server.")
        return backend


def _by_service(creations: Sequence[InterfaceAllocation]) -> dict[str, list[InterfaceAllocation]]:
    """Groups the creations by service, in the order in which services are locked."""
    by_service: dict[str, list[InterfaceAllocation]] = {}
    for creation in creations:
        by_service.setdefault(service_of(creation.request), []).append(creation)
    return dict(sorted(by_service.items()))


def service_of(request: CreateServers) -> str:
    """Returns the request's service; empty for minova's own networks or for none. Raises BadRequest if its interfaces
    are of several services.
    """
    services = {nic.service for nic in request.requested_networks}
    if len(services) > 1:
        raise errors.BadRequest("The networks of a server are of one service.")
    return next(iter(services), "")
