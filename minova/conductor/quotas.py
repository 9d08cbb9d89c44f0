"""Quotas: the limits of a project, and the enforcement of them."""

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, TypeVar

from oslo_config import cfg
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.conductor.api.quotas import QuotasApi
from minova.db import quotas
from minova.db.quotas import OverQuota, UsageNotCounted
from minova.objects.catalogue.quota import RESOURCES, UNLIMITED, overruns
from minova.races import Race, repeat_lost

LOG = logging.getLogger(__name__)
T = TypeVar("T")


class Quotas(QuotasApi):
    def __init__(self, conf: cfg.ConfigOpts, worker: TaskWorker) -> None:
        self._conf = conf
        self._worker = worker
        self.race = Race(UsageNotCounted, self._count_first, _too_many_changes)

    # -- limits ----------------------------------------------------------------------------------------------------

    def limits(self, session: Session, project_id: str) -> dict[str, int]:
        return quotas.limits_of(session, self._conf, project_id)

    def update_quota_set(self, ctx: RequestContext, project_id: str, limits: Mapping[str, int], force: bool) -> None:
        _check(limits)

        def work(session: Session) -> None:
            used = quotas.current_usages(session, project_id)
            for name, limit in sorted(limits.items()):
                if not force and limit != UNLIMITED and limit < used.get(name, 0):
                    raise errors.BadRequest(
                        f"Quota limit {limit} for {name} must be greater than or equal to already used and reserved {used[name]}."
                    )
            quotas.set_limits(session, project_id, limits)

        self._worker.run(work)

    def update_quota_class_set(self, ctx: RequestContext, class_name: str, limits: Mapping[str, int]) -> None:
        _check(limits)
        self._worker.run(lambda session: quotas.set_class(session, class_name, limits))

    def delete_quota_set(self, ctx: RequestContext, project_id: str, resources: Collection[str]) -> None:
        self._worker.run(lambda session: quotas.remove_limits(session, project_id, resources))

    # -- usages ----------------------------------------------------------------------------------------------------

    def take(self, session: Session, project_id: str, amounts: Mapping[str, int]) -> None:
        """Can lose `race`. Raises OverQuota if not all fits."""
        quotas.take(session, project_id, amounts, quotas.configured(self._conf))

    def overrun(self, project_id: str, amounts: Mapping[str, int]) -> OverQuota | None:
        """For dry runs: writes nothing. Returns what `take` would raise now; None if all of it fits."""
        with self._worker.db.read() as session:
            used, limits = quotas.current_usages(session, project_id), self.limits(session, project_id)
        over = overruns(amounts, used, limits)
        return OverQuota(over, used, limits) if over else None

    def take_always(self, session: Session, project_id: str, amounts: Mapping[str, int]) -> None:
        """Same as `take`, but ignores the limits."""
        quotas.take(session, project_id, amounts, None)

    def run(self, work: Callable[[Session], T], *races: Race[Any]) -> T:
        """Runs one write transaction in which `take` may be used. `races`: the other races that it can lose."""
        return repeat_lost(lambda: self._worker.run(work), (self.race, *races))

    def counted(self, work: Callable[[Session], T], *races: Race[Any]) -> T:
        """As `run`. Raises Forbidden if a quota is exceeded."""
        try:
            return self.run(work, *races)
        except OverQuota as error:
            raise refused(error) from None

    def _count_first(self, lost: UsageNotCounted) -> None:
        try:
            self._worker.run(lambda session: quotas.count_first(session, lost.project_id))
        except IntegrityError:
            LOG.debug("Another request counts the usage of project %s", lost.project_id)

    # -- audit -----------------------------------------------------------------------------------------------------

    def recount(self) -> None:
        """Corrects the usages for what services of release 0.1.0 made or removed without counting."""
        with self._worker.db.read() as session:
            projects = quotas.projects(session)
        for project_id in projects:
            changed = self._worker.run(partial(quotas.recount, project_id=project_id))
            if changed:
                changes = ", ".join(f"{name} {right}, not {wrong}" for name, (wrong, right) in sorted(changed.items()))
                LOG.warning("The usage of project %s was counted again: %s", project_id, changes)


def _too_many_changes(_: UsageNotCounted) -> errors.ServiceUnavailable:
    return errors.ServiceUnavailable("Too many requests change the usage of this project. Please try again.")


def _check(limits: Mapping[str, int]) -> None:
    """The API has checked the limits of its callers; this checks those of other callers."""
    unknown = sorted(limits.keys() - RESOURCES.keys())
    if unknown:
        raise errors.BadRequest(f"There are no quotas {', '.join(unknown)}.")


def refused(error: OverQuota, text: str | None = None) -> errors.Forbidden:
    """Returns the error in a form that the API of any release knows."""
    return errors.Forbidden(text or str(error))
