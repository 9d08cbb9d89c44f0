"""Calls of metadata services."""

from typing import Protocol

from minova.context import RequestContext
from minova.contracts.base import Role, call, called_by
from minova.contracts.conductor.audiences import API_TOPIC, API_TOPIC_SINCE
from minova.objects.guests.guest_metadata import GuestMetadata
from minova.objects.hosts.bounds import Line, Reason


@called_by(Role.METADATA, topic=API_TOPIC, topic_since=API_TOPIC_SINCE, speaks_for_host=True)
class MetadataOfHostsApi(Protocol):
    """Calls of a host's metadata service, for its guests on `local` networks. The service identifies a guest by the
    network on which its request came in, and by its address there.
    """

    @call(since="1.7", in_safe_mode=True)
    def metadata_of_address(self, ctx: RequestContext, *, host: Line, address: Line, network_id: Line) -> GuestMetadata:
        """Raises NotFound if no instance of this host has the address on this `local` network."""
        ...

    @call(since="1.7", refused_when_disk_full=True)
    def leave_password_of_address(
        self, ctx: RequestContext, *, host: Line, address: Line, password: Reason, network_id: Line
    ) -> None:
        """Raises NotFound as `metadata_of_address` does, Conflict if there is a password already, BadRequest if it is
        too long.
        """
        ...


@called_by(Role.METADATA_PROXY, topic=API_TOPIC, topic_since=API_TOPIC_SINCE)
class MetadataOfProjectsApi(Protocol):
    """Calls of the metadata service for Neutron's proxy. The proxy names the instance and project of a request, and
    signs them.
    """

    @call(since="1.7", in_safe_mode=True)
    def metadata_of_instance(self, ctx: RequestContext, *, instance_uuid: Line, project_id: Line) -> GuestMetadata:
        """Raises NotFound if the project has no such server."""
        ...

    @call(since="1.7", refused_when_disk_full=True)
    def leave_password(self, ctx: RequestContext, *, instance_uuid: Line, project_id: Line, password: Reason) -> None:
        """Raises NotFound as `metadata_of_instance` does, Conflict and BadRequest as `leave_password_of_address`
        does.
        """
        ...
