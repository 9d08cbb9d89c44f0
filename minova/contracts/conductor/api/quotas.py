"""Calls of the API about quotas."""

from typing import Protocol

from minova.context import RequestContext
from minova.contracts.base import call
from minova.contracts.conductor.audiences import BY_API


@BY_API
class QuotasApi(Protocol):
    @call(since="1.7", refused_when_disk_full=True)
    def update_quota_set(self, ctx: RequestContext, *, project_id: str, limits: dict[str, int], force: bool) -> None:
        """Set these limits of a project; -1 means no limit. Raises BadRequest without `force` if a limit is below what
        is used.
        """
        ...

    @call(since="1.7")
    def delete_quota_set(self, ctx: RequestContext, *, project_id: str, resources: tuple[str, ...]) -> None:
        """Restore the defaults of these resources for the project."""
        ...

    @call(since="1.7", refused_when_disk_full=True)
    def update_quota_class_set(self, ctx: RequestContext, *, class_name: str, limits: dict[str, int]) -> None:
        """Set these limits of a class. The limits of `default` apply to projects without limits of their own."""
        ...
