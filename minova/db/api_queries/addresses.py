"""The search for instances by their addresses (`ip`, `ip6`): in minova's own networks by the database, in Neutron's by what it
showed last.
"""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, Text, cast, func, join, or_, select
from sqlalchemy.orm import Session

from minova.db.api_queries import keyset
from minova.db.models import Instance, IpAllocation, NeutronPort, Port
from minova.db.networks import neutron_ports

# Separates the addresses of one server. Occurs in no name.
SEPARATOR = "\x1f"
# The most instances with a matching address that a query names: fewer than SQLite's limit of variables.
MAX_HAVING = 500
# The first instances in the order of a listing, among which those with a matching address are sought one by one.
FIRST = 2000
# The addresses that each of these parameters searches, in minova's own networks.
_OF_VERSION = {"ip": IpAllocation.address.not_like("%:%"), "ip6": IpAllocation.address.like("%:%")}


def _joined(condition: ColumnElement[bool]) -> Any:
    """The addresses of a server that meet the condition, joined into one text."""
    text = select(func.aggregate_strings(IpAllocation.address, SEPARATOR)).join(Port, Port.id == IpAllocation.port_id)
    return text.where(Port.instance_uuid == Instance.uuid, condition).correlate(Instance).scalar_subquery()


# What each of these parameters searches, as a column of an instance.
TEXTS = {key: _joined(condition) for key, condition in _OF_VERSION.items()}


def may_match(key: str, like: str) -> ColumnElement[bool]:
    """Whether an instance has an address that is like this, or had a port in Neutron with such a text."""
    in_neutron = cast(NeutronPort.vif, Text).ilike(f"%{like}%", escape="\\")
    return or_(
        Instance.uuid.in_(instances_of(_ports_with(key, like))),
        Instance.uuid.in_(select(NeutronPort.instance_uuid).where(in_neutron)),
    )


def _ports_with(key: str, like: str) -> Select[Any]:
    # The case matters for letters alone, and costs more than all the rest of a comparison.
    has_letters = any(letter.isalpha() for letter in like)
    matches = (IpAllocation.address.ilike if has_letters else IpAllocation.address.like)(like, escape="\\")
    return select(IpAllocation.port_id).where(_OF_VERSION[key], matches)


def instances_or_ports(session: Session, key: str, like: str) -> list[str] | Select[Any]:
    """Returns the instances with an address that is like this; a query for their ports if they are many."""
    port_ids = _ports_with(key, like)
    # Databases do not know how many addresses match a pattern, and read all instances to find one.
    few = session.scalars(port_ids.limit(MAX_HAVING + 1)).all()
    return list(session.scalars(instances_of(few))) if len(few) <= MAX_HAVING else port_ids


def instances_of(port_ids: Sequence[int] | Select[Any]) -> Select[Any]:
    """A query for the instances of these ports."""
    return select(Port.instance_uuid).where(Port.instance_uuid.is_not(None), Port.id.in_(port_ids))


def first_of_many(
    session: Session, query: Select[Any], columns: keyset.Columns, many: Sequence[Select[Any]], limit: int
) -> list[int]:
    """Returns the ids of the first instances that have ports of each query of `many`.

    Databases walk the instances in their order and look for the addresses of each, which takes seconds if the first that matches comes late.
    So only the first are walked. If too few of these match, all that match are gathered and then sorted.
    """
    narrow = query.with_only_columns(Instance.id, Instance.uuid, *keyset.selected(columns))
    first = keyset.ordered(narrow, columns).limit(FIRST).subquery()
    walked = select(first.c.id).where(*(first.c.uuid.in_(instances_of(port_ids)) for port_ids in many))
    ids = session.scalars(keyset.ordered_as_selected(walked, columns, first).limit(limit)).all()
    if len(ids) == limit:
        return list(ids)
    of_first, *others = many
    first_ports = of_first.subquery()
    from_addresses = join(first_ports, Port, Port.id == first_ports.c.port_id).join(
        Instance, Instance.uuid == Port.instance_uuid
    )
    having = narrow.where(*(Instance.uuid.in_(instances_of(port_ids)) for port_ids in others))
    having = having.select_from(from_addresses).distinct()
    # MariaDB would begin with the instances.
    for dialect in ("mysql", "mariadb"):
        having = having.prefix_with("STRAIGHT_JOIN", dialect=dialect)
    matching = having.subquery()
    gathered = keyset.ordered_as_selected(select(matching.c.id), columns, matching)
    return list(session.scalars(gathered.limit(limit)))


def in_neutron(session: Session, uuids: Collection[str]) -> dict[tuple[str, str], str]:
    """Returns {(instance, key of TEXTS): its addresses in Neutron}, as Neutron showed them last, joined into one text."""
    addresses_by_key: dict[tuple[str, str], list[str]] = {}
    for uuid, numbered_vifs in neutron_ports.describe(session, uuids).items():
        for address in (each.ip_address for _, vif in numbered_vifs for each in vif.addresses):
            addresses_by_key.setdefault((uuid, "ip6" if ":" in address else "ip"), []).append(address)
    return {key: SEPARATOR.join(addresses) for key, addresses in addresses_by_key.items()}
