"""Tags of the resources of networks."""

from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.conductor.api.networks import NetworkTagsApi
from minova.db.networks import tags
from minova.objects.network.network import MAX_TAGS


class NetworkTags(NetworkTagsApi):
    def __init__(self, worker: TaskWorker) -> None:
        self._worker = worker

    def update_network_tags(
        self,
        ctx: RequestContext,
        kind: str,
        resource_id: str,
        add: tuple[str, ...] = (),
        remove: tuple[str, ...] | None = (),
    ) -> tuple[str, ...]:
        def work(session: Session) -> tuple[str, ...]:
            if kind not in tags.TABLES or not tags.lock(session, kind, resource_id, self._worker.at()):
                raise errors.TagResourceNotFound(f"Resource {kind}s {resource_id} could not be found.")
            before = set(tags.of_resources(session, [resource_id]).get(resource_id, ()))
            removed_tags = (before if remove is None else before & set(remove)) - set(add)
            after = before - removed_tags | set(add)
            if len(after) > MAX_TAGS:
                raise errors.BadRequest(f"The number of tags exceed the per-resource limit of {MAX_TAGS}")
            tags.take(session, resource_id, removed_tags)
            tags.add(session, {resource_id: after - before})
            return tuple(sorted(after))

        return self._worker.run(work)
