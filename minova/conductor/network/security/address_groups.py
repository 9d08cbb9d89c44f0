"""Address groups: made, changed and deleted, each in one transaction; then hosts get a hint.

Every transaction locks security groups before address groups, and these before usages.
"""

from collections import Counter
from collections.abc import Collection, Mapping

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.network.interface_notifier import InterfaceNotifier
from minova.conductor.network.revisions import changed, require_revision
from minova.conductor.quotas import Quotas
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.conductor.api.networks import AddressGroupsApi
from minova.db.models import AddressGroup as Row
from minova.db.networks import address_groups as rows
from minova.db.quotas import give
from minova.objects.network.address_groups import AddressGroup, added, removed


class AddressGroups(AddressGroupsApi):
    def __init__(self, worker: TaskWorker, quotas: Quotas, hints: InterfaceNotifier) -> None:
        self._worker = worker
        self._quotas = quotas
        self._hints = hints

    def create_address_groups(
        self, ctx: RequestContext, address_groups: tuple[AddressGroup, ...]
    ) -> tuple[AddressGroup, ...]:
        def work(session: Session) -> tuple[AddressGroup, ...]:
            for project_id, count in sorted(Counter(group.project_id for group in address_groups).items()):
                self._quotas.take(session, project_id, {"address_group": count})
            for group in address_groups:
                rows.add(session, group, self._worker.at())
            return tuple(_require(rows.find(session, group.id), group.id) for group in address_groups)

        return self._quotas.counted(work)

    def update_address_group(self, ctx: RequestContext, address_group: AddressGroup) -> AddressGroup:
        """The ranges stay: `change_addresses` changes them."""
        group_id = address_group.id

        def work(session: Session) -> AddressGroup:
            current = rows.to_object(lock_address_groups(session, [group_id])[group_id])
            if current.revision_number != address_group.revision_number:
                raise changed("address group", group_id)
            written = msgspec.structs.replace(address_group, addresses=current.addresses)
            rows.replace(session, written, self._worker.at())
            return _require(rows.find(session, group_id), group_id)

        return self._worker.run(work)

    def change_addresses(
        self, ctx: RequestContext, group_id: str, add: tuple[str, ...] = (), remove: tuple[str, ...] = ()
    ) -> AddressGroup:
        def work(session: Session) -> tuple[AddressGroup, set[str]]:
            row = lock_address_groups(session, [group_id])[group_id]
            group = rows.to_object(row)
            group = msgspec.structs.replace(group, addresses=removed(group, remove))
            group = msgspec.structs.replace(group, addresses=added(group, add))
            rows.replace(session, group, self._worker.at())
            return _require(rows.find(session, group_id), group_id), rows.groups_with_rules_for(session, row.id)

        group, naming = self._worker.run(work)
        self._hints.rules_changed(sorted(naming))
        return group

    def delete_address_group(self, ctx: RequestContext, group_id: str, revision: int | None = None) -> None:
        """Raises AddressGroupInUse if a rule names the group."""

        def work(session: Session) -> None:
            row = lock_address_groups(session, [group_id])[group_id]
            require_revision(row, revision)
            if rows.is_named(session, row.id):
                raise errors.AddressGroupInUse(
                    f"Address group {group_id} is in use on one or more security group rules."
                )
            project_id = row.project_id
            rows.remove(session, row.id)
            give(session, project_id, {"address_group": 1})

        self._worker.run(work)


def lock_address_groups(session: Session, group_ids: Collection[str]) -> Mapping[str, Row]:
    """Returns the locked groups by id. Raises AddressGroupNotFound."""
    locked = rows.lock_several(session, group_ids)
    for missing in sorted(set(group_ids) - locked.keys()):
        raise _not_found(missing)
    return locked


def _require(group: AddressGroup | None, group_id: str) -> AddressGroup:
    if group is None:
        raise _not_found(group_id)
    return group


def _not_found(group_id: str) -> errors.AddressGroupNotFound:
    return errors.AddressGroupNotFound(f"Address group {group_id} could not be found.")
