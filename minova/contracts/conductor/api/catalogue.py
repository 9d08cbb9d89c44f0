"""Calls of the API about flavors, aggregates, server groups and key pairs."""

from typing import Protocol

from minova.context import RequestContext
from minova.contracts.base import call
from minova.contracts.conductor.audiences import BY_API
from minova.objects.catalogue.aggregate import Aggregate
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.instance_group import InstanceGroup
from minova.objects.catalogue.key_pair import KeyPair


@BY_API
class FlavorsApi(Protocol):
    @call(refused_when_disk_full=True)
    def create_flavor(self, ctx: RequestContext, *, flavor: Flavor) -> Flavor:
        """Raises Conflict if the name or flavorid is taken."""
        ...

    @call(since="1.7", refused_when_disk_full=True)
    def update_flavor(self, ctx: RequestContext, *, flavorid: str, description: str | None) -> Flavor:
        """Raises NotFound if there is no such flavor."""
        ...

    @call
    def delete_flavor(self, ctx: RequestContext, *, flavorid: str) -> None: ...

    @call(since="1.7", refused_when_disk_full=True)
    def add_flavor_access(self, ctx: RequestContext, *, flavorid: str, project_id: str) -> tuple[str, ...]:
        """Returns the projects that then have access. Raises NotFound if there is no such flavor, Conflict if the
        project has access.
        """
        ...

    @call(since="1.7")
    def remove_flavor_access(self, ctx: RequestContext, *, flavorid: str, project_id: str) -> tuple[str, ...]:
        """Returns the projects that then have access. Raises NotFound if there is no such flavor, or the project has no
        access.
        """
        ...

    @call(since="1.1", refused_when_disk_full=True)
    def update_flavor_extra_specs(
        self, ctx: RequestContext, *, flavorid: str, extra_specs: dict[str, str | None]
    ) -> Flavor:
        """Set these extra specs, and unset those that are None. Raises NotFound if there is no such flavor, or one to
        be unset is not set.
        """
        ...


@BY_API
class AggregatesApi(Protocol):
    @call(since="1.1", refused_when_disk_full=True)
    def create_aggregate(self, ctx: RequestContext, *, name: str, metadata: dict[str, str]) -> Aggregate:
        """Raises Conflict if the name is taken."""
        ...

    @call(since="1.1", refused_when_disk_full=True)
    def update_aggregate(
        self, ctx: RequestContext, *, aggregate_id: int, name: str | None, metadata: dict[str, str | None]
    ) -> Aggregate:
        """`name` None: the name stays. Keys of `metadata` with the value None are unset.

        Raises BadRequest if the aggregate's zone cannot change so.
        """
        ...

    @call(since="1.1")
    def delete_aggregate(self, ctx: RequestContext, *, aggregate_id: int) -> None:
        """Raises BadRequest if the aggregate has hosts."""
        ...

    @call(since="1.1", refused_when_disk_full=True)
    def add_host_to_aggregate(self, ctx: RequestContext, *, aggregate_id: int, host: str) -> Aggregate:
        """Raises NotFound if there is no such aggregate or compute host, Conflict if the host is in it already or in
        another zone.
        """
        ...

    @call(since="1.1")
    def remove_host_from_aggregate(self, ctx: RequestContext, *, aggregate_id: int, host: str) -> Aggregate:
        """Raises NotFound if the host is not in the aggregate, Conflict if the host's instances would change their
        zone.
        """
        ...


@BY_API
class ImageCachingApi(Protocol):
    @call(since="1.9")
    def cache_images(self, ctx: RequestContext, *, aggregate_id: int, images: tuple[Image, ...]) -> None:
        """Let the hosts of the aggregate fetch these images into their caches. Answers before they have them.

        Raises NotFound if there is no such aggregate.
        """
        ...


@BY_API
class ServerGroupsApi(Protocol):
    @call(since="1.1", added={"group_uuid": "1.9"}, refused_when_disk_full=True)
    def create_server_group(
        self,
        ctx: RequestContext,
        *,
        name: str,
        policy: str,
        max_server_per_host: int | None = None,
        group_uuid: str | None = None,
    ) -> InstanceGroup:
        """`group_uuid`: of the new group. None: any.

        Raises BadRequest if there is no such policy, or the policy does not have this rule.
        """
        ...

    @call(since="1.1")
    def delete_server_group(self, ctx: RequestContext, *, group_uuid: str) -> None:
        """The group's servers stay where they are. Raises NotFound if there is no such group."""
        ...


@BY_API
class KeyPairsApi(Protocol):
    @call(since="1.7", refused_when_disk_full=True)
    def create_key_pair(self, ctx: RequestContext, *, key_pair: KeyPair) -> KeyPair:
        """Raises Conflict if the user has a key pair of this name, Forbidden if the user has too many."""
        ...

    @call(since="1.7")
    def delete_key_pair(self, ctx: RequestContext, *, user_id: str, name: str) -> None:
        """Servers created with the key pair keep its text. Raises NotFound if there is no such key pair."""
        ...
