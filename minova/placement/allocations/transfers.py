"""Transfers what one consumer holds to another consumer: during a move, the migration holds the source's resources
while the instance claims new ones.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from minova.db.models import Allocation, Consumer
from minova.placement import changes
from minova.placement.allocations import rows

# The claim number of a migration as a consumer. Nothing claims for a migration that has ended.
CLAIM_NO = 1
# Nova's consumer type for a migration.
CONSUMER_TYPE = "MIGRATION"


def transfer(session: Session, source_uuid: str, target_uuid: str, now: Any = None) -> bool:
    """Gives all that `source_uuid` holds to `target_uuid`. The resources are never free in between, so no other claim
    can take them.

    Returns False if the source holds nothing. The target must hold nothing of the same inventories. A new target gets
    the owner of the source.
    """
    session.flush()
    owner = session.execute(
        select(Consumer.project_id, Consumer.user_id).where(Consumer.uuid == source_uuid)
    ).one_or_none()
    if owner is None:
        return False
    rows.ensure_consumers(
        session, [(target_uuid, CLAIM_NO, owner.project_id, owner.user_id)], consumer_type=CONSUMER_TYPE
    )
    rows.lock_consumers(session, sorted({source_uuid, target_uuid}))
    holding_by_consumer = rows.holdings(session, [source_uuid])
    if not holding_by_consumer:
        return False
    statement = update(Allocation).where(Allocation.consumer_uuid == source_uuid).values(consumer_uuid=target_uuid)
    session.connection().execute(statement)
    changes.append(session, rows.node_ids_of(session, rows.providers_in(holding_by_consumer.values())), now)
    return True


def exchange(session: Session, instance_uuid: str, migration_uuid: str, now: Any = None) -> bool:
    """Gives each of the two what the other one holds: a move is taken back whose destination has still to remove its copy. Claims
    of the instance that are still in progress are refused from now on, as by `claims.release`.

    Returns False, and changes nothing, if one of them holds nothing.
    """
    session.flush()
    pair = sorted({instance_uuid, migration_uuid})
    numbers = rows.lock_consumers(session, pair)
    holding_by_consumer = rows.holdings(session, pair)
    if len(holding_by_consumer) < len(pair):
        return False
    rows.delete_allocations(session, pair)
    rows.insert_allocations(
        session, dict(zip(reversed(pair), (holding_by_consumer[uuid] for uuid in pair), strict=True))
    )
    rows.renumber(session, {instance_uuid: numbers[instance_uuid] + 1})
    changes.append(session, rows.node_ids_of(session, rows.providers_in(holding_by_consumer.values())), now)
    return True


def absorb(
    session: Session, instance_uuid: str, migration_uuid: str, resources: Mapping[str, int], now: Any = None
) -> None:
    """Gives the instance `resources` of what the two hold on one node together, and releases the rest. What a resize holds beyond the
    old size becomes part of the new one, and is never free in between.
    """
    session.flush()
    pair = sorted({instance_uuid, migration_uuid})
    rows.lock_consumers(session, pair)
    holding_by_consumer = rows.holdings(session, pair)
    if not holding_by_consumer:
        return
    providers = rows.providers_in(holding_by_consumer.values())
    rows.lock_inventories(session, providers)
    together, remaining, kept_holding = rows.total(holding_by_consumer.values()), Counter(resources), rows.Holding()
    for (provider, name), amount in sorted(together.items()):
        kept_holding[provider, name] = min(amount, remaining[name])
        remaining[name] -= kept_holding[provider, name]
    kept_holding = +kept_holding
    rows.change_used(session, kept_holding, together)
    rows.delete_allocations(session, pair)
    rows.insert_allocations(session, {instance_uuid: kept_holding})
    changes.append(session, rows.node_ids_of(session, providers), now)
