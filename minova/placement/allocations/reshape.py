"""Changes inventories and allocations of several providers and consumers at once, in an order that strands no
allocation.
"""

from collections.abc import Mapping, Sequence

from sqlalchemy.orm import Session

from minova.placement import errors
from minova.placement.allocations import rows, writes
from minova.placement.allocations.writes import ConsumerAllocations
from minova.placement.providers import inventories as provider_inventories
from minova.placement.providers.inventories import Numbers
from minova.placement.providers.queries import find

# {provider uuid: (generation seen, its inventories by resource class)}
Inventories = Mapping[str, tuple[int, Mapping[str, Numbers]]]


def reshape(session: Session, inventories: Inventories, consumer_changes: Sequence[ConsumerAllocations]) -> None:
    """First gives the providers both their old and their new inventories, then moves the allocations, then removes the
    old inventories.

    Raises BadRequest if there is no such provider or class. Raises Conflict if a generation has changed, there is not
    enough capacity, or an inventory to be removed is in use.
    """
    writes.lock(session, consumer_changes)
    # Lock all at once, in the order of all writers. Locking them one after the other would use the order of their
    # uuids.
    uuids = {*inventories, *(uuid for change in consumer_changes for uuid in change.allocations)}
    rows.lock_inventories(session, [provider.id for provider in rows.providers_by_uuid(session, uuids).values()])
    for uuid, (generation, numbers) in sorted(inventories.items()):
        _widen(session, uuid, generation, numbers)
    writes.replace(session, consumer_changes)
    for uuid, (_, numbers) in sorted(inventories.items()):
        provider_inventories.replace(session, find(session, uuid), numbers)


def _widen(session: Session, uuid: str, generation: int, numbers: Mapping[str, Numbers]) -> None:
    try:
        provider = find(session, uuid)
    except errors.NotFound as error:
        raise errors.BadRequest(
            f"Resource provider {uuid} in inventories not found: {error}", errors.PROVIDER_NOT_FOUND
        ) from None
    if provider.generation != generation:
        raise errors.Conflict(
            f"resource provider generation conflict for provider {uuid}: "
            f"actual: {provider.generation}, given: {generation}",
            errors.CONCURRENT_UPDATE,
        )
    if not numbers:
        return
    try:
        provider_inventories.replace(session, provider, numbers, union=True)
    except errors.NotFound as error:
        raise errors.BadRequest(f"malformed reshaper data: {error}") from None
