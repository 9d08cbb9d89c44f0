"""Identifies the guest whose metadata a request may read: a guest of this host, by its network and address, or the
guest that Neutron's proxy names.

A caller is the proved identity of the guest. Nothing else in a request selects the data of the answer.
"""

import hashlib
import hmac
from collections.abc import Hashable
from typing import Any, Protocol

import msgspec

from minova import errors
from minova.context import service_context
from minova.contracts.conductor import ConductorApi
from minova.objects.guests.guest_metadata import GuestMetadata


class GuestIdentity(Hashable, Protocol):
    """The proved identity of a guest."""

    @property
    def owner(self) -> str:
        """Returns whose share of the service's threads the guest's requests take."""
        ...


class Guests(Protocol):
    """`caller` is the result of the method `caller`, from the WSGI environment."""

    def caller(self, environ: dict[str, Any]) -> GuestIdentity:
        """Returns the identity of the guest. Raises BadRequest or Forbidden if this service does not answer such
        requests.
        """
        ...

    def read(self, caller: Any) -> GuestMetadata:
        """Raises NotFound if there is no such guest."""
        ...

    def leave_password(self, caller: Any, password: str) -> None:
        """Stores a password. Raises NotFound if there is no such guest, Conflict if it has a password, BadRequest if
        the password is too long.
        """
        ...


# In the WSGI environment: the id of the network whose listener accepted the connection.
NETWORK_ID = "minova.network_id"


class LocalGuest(msgspec.Struct, frozen=True):
    network_id: str
    address: str

    @property
    def owner(self) -> str:
        """Not the address: a guest may have many."""
        return self.network_id


class LocalGuests:
    """Guests of this host on `local` networks, by the network on which the connection came in, and its source address.

    Networks may have the same addresses. On a network, a connection opens only after the client has received the answer
    to its first packet, which goes to the one port with the address; and the filter of each port passes only packets
    from the port's own addresses.
    """

    def __init__(self, conductor: ConductorApi, host: str) -> None:
        self._conductor = conductor
        self._host = host

    def caller(self, environ: dict[str, Any]) -> LocalGuest:
        if "HTTP_X_FORWARDED_FOR" in environ or "HTTP_FORWARDED" in environ:
            # A proxy inside a guest would expose the guest's metadata to strangers.
            raise errors.Forbidden("Requests by proxies are not answered.")
        if "HTTP_X_INSTANCE_ID" in environ:
            raise errors.BadRequest("X-Instance-ID is of Neutron's proxy, which is not served here.")
        return LocalGuest(str(environ[NETWORK_ID]), str(environ.get("REMOTE_ADDR", "")))

    def read(self, caller: LocalGuest) -> GuestMetadata:
        return self._conductor.metadata_of_address(
            service_context(), host=self._host, address=caller.address, network_id=caller.network_id
        )

    def leave_password(self, caller: LocalGuest, password: str) -> None:
        self._conductor.leave_password_of_address(
            service_context(),
            host=self._host,
            address=caller.address,
            password=password,
            network_id=caller.network_id,
        )


class ProxiedGuest(msgspec.Struct, frozen=True):
    instance_uuid: str
    project_id: str

    @property
    def owner(self) -> str:
        return self.project_id


class ProxiedGuests:
    """Guests that Neutron's metadata proxy names. The proxy signs the name with a secret that it shares with this
    service.
    """

    def __init__(self, conductor: ConductorApi, secret: str) -> None:
        self._conductor = conductor
        self._secret = secret.encode()

    def caller(self, environ: dict[str, Any]) -> ProxiedGuest:
        headers = [environ.get(f"HTTP_X_{name}", "") for name in ("INSTANCE_ID", "TENANT_ID", "INSTANCE_ID_SIGNATURE")]
        instance_uuid, project_id, signature = headers
        for title, value in (("X-Instance-ID", instance_uuid), ("X-Tenant-ID", project_id)):
            # WSGI joins the values of a repeated header with a comma.
            if not value or "," in value:
                raise errors.BadRequest(f"{title} header is missing from request, or it is more than one.")
        expected = hmac.new(self._secret, instance_uuid.encode("latin-1"), hashlib.sha256).hexdigest()
        if not hmac.compare_digest(expected.encode(), signature.encode("latin-1")):
            raise errors.Forbidden("Invalid proxy request signature.")
        return ProxiedGuest(instance_uuid, project_id)

    def read(self, caller: ProxiedGuest) -> GuestMetadata:
        return self._conductor.metadata_of_instance(
            service_context(), instance_uuid=caller.instance_uuid, project_id=caller.project_id
        )

    def leave_password(self, caller: ProxiedGuest, password: str) -> None:
        self._conductor.leave_password(
            service_context(),
            instance_uuid=caller.instance_uuid,
            project_id=caller.project_id,
            password=password,
        )
