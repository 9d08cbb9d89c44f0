"""Server groups: made and removed, and read into a request just before the scheduler is called."""

import uuid
from typing import Any

import msgspec
from oslo_config import cfg
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.quotas import Quotas, refused
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.conductor.api.catalogue import ServerGroupsApi
from minova.db.catalogue import server_groups
from minova.db.quotas import OverQuota, give
from minova.objects.catalogue.instance_group import (
    AFFINITY,
    ANTI_AFFINITY,
    POLICIES,
    SOFT_AFFINITY,
    SOFT_ANTI_AFFINITY,
    InstanceGroup,
)
from minova.objects.requests.request_spec import RequestSpec

HINT = "group"
COUNTED_AS = "server_groups"
# For each policy the option, and the filter or weigher in it, that implements the policy.
_SERVED_BY = {
    AFFINITY: ("enabled_filters", "ServerGroupAffinityFilter"),
    ANTI_AFFINITY: ("enabled_filters", "ServerGroupAntiAffinityFilter"),
    SOFT_AFFINITY: ("weight_classes", "ServerGroupSoftAffinityWeigher"),
    SOFT_ANTI_AFFINITY: ("weight_classes", "ServerGroupSoftAntiAffinityWeigher"),
}
# The names for "every weigher": minova's and Nova's.
_ALL = ("all", "nova.scheduler.weights.all_weighers")


class Groups(ServerGroupsApi):
    def __init__(self, conf: cfg.ConfigOpts, worker: TaskWorker, quotas: Quotas) -> None:
        self._conf = conf
        self._worker = worker
        self._quotas = quotas

    def create_server_group(
        self,
        ctx: RequestContext,
        name: str,
        policy: str,
        max_server_per_host: int | None = None,
        group_uuid: str | None = None,
    ) -> InstanceGroup:
        """Raises Forbidden, too, if the project has too many groups."""
        if policy not in POLICIES:
            raise errors.BadRequest(f"Server group policy {policy!r} is none of {', '.join(POLICIES)}.")
        if max_server_per_host is not None and policy != ANTI_AFFINITY:
            raise errors.BadRequest(f"Only the policy {ANTI_AFFINITY} supports rules, and {policy} was asked for.")
        group = InstanceGroup(
            uuid=group_uuid or str(uuid.uuid4()),
            name=name,
            policy=policy,
            max_server_per_host=max_server_per_host,
            project_id=ctx.project_id,
            user_id=ctx.user_id,
        )

        def work(session: Session) -> None:
            self._quotas.take(session, ctx.project_id, {COUNTED_AS: 1})
            server_groups.add(session, group, self._worker.at())

        try:
            self._quotas.run(work)
        except OverQuota as error:
            raise refused(error, "Quota exceeded, too many server groups.") from None
        return group

    def delete_server_group(self, ctx: RequestContext, group_uuid: str) -> None:
        def work(session: Session) -> None:
            project_id = server_groups.remove(session, group_uuid)
            if project_id is None:
                raise errors.NotFound(f"Instance group {group_uuid} could not be found.")
            give(session, project_id, {COUNTED_AS: 1})

        self._worker.run(work)

    def read_into(self, spec: RequestSpec, instance_uuid: str) -> RequestSpec:
        """Returns the spec with the present group of one of its instances. A group that was deleted meanwhile has no
        members any more.

        Raises UnsupportedPolicyException if nothing that this cloud's scheduler runs implements the group's policy.
        """
        if not spec.get_scheduler_hint(HINT):
            return spec
        with self._worker.db.read() as session:
            group = server_groups.of_instance(session, instance_uuid)
        return self._served(spec, group)

    def read_for_dry_run(self, spec: RequestSpec) -> RequestSpec:
        """Same as `read_into`, for a request that makes no instances. Raises BadRequest if there is no such group."""
        group_uuid = spec.get_scheduler_hint(HINT)
        if not group_uuid:
            return spec
        with self._worker.db.read() as session:
            group = server_groups.as_it_is(session, group_uuid)
        if group is None:
            raise errors.BadRequest(f"Server group {group_uuid} could not be found.")
        return self._served(spec, group)

    def _served(self, spec: RequestSpec, group: InstanceGroup | None) -> RequestSpec:
        if group is not None:
            require_served(group.policy, self._conf.filter_scheduler)
        return msgspec.structs.replace(spec, instance_group=group)


def require_served(policy: str, options: Any) -> None:
    """Raises UnsupportedPolicyException if the filter or weigher of this policy is not configured, as in Nova."""
    if policy not in _SERVED_BY:
        raise errors.UnsupportedPolicyException(f"Server group policy {policy!r} is not supported.")
    option, name = _SERVED_BY[policy]
    configured = {path.rpartition(".")[2].rpartition(":")[2] for path in getattr(options, option)}
    every = option == "weight_classes" and not configured.isdisjoint(word.rpartition(".")[2] for word in _ALL)
    if name not in configured and not every:
        raise errors.UnsupportedPolicyException(
            f"Server group policy {policy} is not supported: {name} is not in [filter_scheduler] {option}."
        )
