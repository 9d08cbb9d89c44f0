"""Flavors: administrators make, change and delete them."""

from collections.abc import Mapping

import msgspec
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.conductor.api.catalogue import FlavorsApi
from minova.db.catalogue import flavors
from minova.objects.catalogue.flavor import Flavor


class Flavors(FlavorsApi):
    def __init__(self, worker: TaskWorker) -> None:
        self._worker = worker

    def create_flavor(self, ctx: RequestContext, flavor: Flavor) -> Flavor:
        """Raises BadRequest if the flavor has no size, Conflict if its name or ID is taken."""
        if min(flavor.vcpus, flavor.memory_mb) < 1 or min(flavor.root_gb, flavor.ephemeral_gb, flavor.swap) < 0:
            raise errors.BadRequest(
                f"Flavor {flavor.name!r} needs at least 1 vCPU and 1 MB of memory, and disks of 0 or more"
            )
        try:
            self._worker.run(lambda session: flavors.add(session, flavor, self._worker.at()))
        except IntegrityError:
            raise errors.Conflict(
                f"Flavor with name {flavor.name!r} or id {flavor.flavorid!r} exists already"
            ) from None
        return flavor

    def update_flavor(self, ctx: RequestContext, flavorid: str, description: str | None) -> Flavor:
        def work(session: Session) -> Flavor:
            flavor = msgspec.structs.replace(_locked(session, flavorid), description=description)
            flavors.replace(session, flavor)
            return flavor

        return self._worker.run(work)

    def delete_flavor(self, ctx: RequestContext, flavorid: str) -> None:
        if not self._worker.run(lambda session: flavors.remove(session, flavorid)):
            raise errors.NotFound(f"Flavor {flavorid} could not be found.")

    def add_flavor_access(self, ctx: RequestContext, flavorid: str, project_id: str) -> tuple[str, ...]:
        def work(session: Session) -> tuple[str, ...]:
            _locked(session, flavorid)
            if project_id in flavors.projects(session, flavorid):
                raise errors.Conflict(
                    f"Flavor access already exists for flavor {flavorid} and project {project_id} combination."
                )
            flavors.add_project(session, flavorid, project_id)
            return flavors.projects(session, flavorid)

        return self._worker.run(work)

    def remove_flavor_access(self, ctx: RequestContext, flavorid: str, project_id: str) -> tuple[str, ...]:
        def work(session: Session) -> tuple[str, ...]:
            _locked(session, flavorid)
            if not flavors.remove_project(session, flavorid, project_id):
                raise errors.NotFound(f"Flavor access not found for {flavorid} / {project_id} combination.")
            return flavors.projects(session, flavorid)

        return self._worker.run(work)

    def update_flavor_extra_specs(
        self, ctx: RequestContext, flavorid: str, extra_specs: Mapping[str, str | None]
    ) -> Flavor:
        def work(session: Session) -> Flavor:
            flavor = _locked(session, flavorid)
            for key, value in extra_specs.items():
                if value is None and key not in flavor.extra_specs:
                    raise errors.NotFound(f"Flavor {flavorid} has no extra specs with key {key}.")
            merged = {key: value for key, value in {**flavor.extra_specs, **extra_specs}.items() if value is not None}
            updated_flavor = msgspec.structs.replace(flavor, extra_specs=merged)
            flavors.replace(session, updated_flavor)
            return updated_flavor

        return self._worker.run(work)


def _locked(session: Session, flavorid: str) -> Flavor:
    flavor = flavors.locked(session, flavorid)
    if flavor is None:
        raise errors.NotFound(f"Flavor {flavorid} could not be found.")
    return flavor
