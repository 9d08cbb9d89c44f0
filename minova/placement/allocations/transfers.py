"""What one consumer holds goes to another: a move's migration keeps the source's room while the instance claims anew."""

from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from minova.db.models import Allocation, Consumer
from minova.placement import changes
from minova.placement.allocations import rows

# Of a migration's uuid as a consumer. One that has ended is never claimed for again.
CLAIM_NO = 1
# What Nova calls such a consumer.
CONSUMER_TYPE = "MIGRATION"


def transfer(session: Session, source_uuid: str, target_uuid: str, now: Any = None) -> bool:
    """All that `source_uuid` holds belongs to `target_uuid` from now on; the resources are never free in between, so that
    no other claim can take them. False: it holds nothing. The target must hold nothing of the same inventories; one that is new has
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
    held = rows.holdings(session, [source_uuid])
    if not held:
        return False
    statement = update(Allocation).where(Allocation.consumer_uuid == source_uuid).values(consumer_uuid=target_uuid)
    session.connection().execute(statement)
    changes.append(session, rows.node_ids_of(session, rows.providers_in(held.values())), now)
    return True
