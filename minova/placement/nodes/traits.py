"""Traits that a compute publishes of its node, beside those that people give its provider."""

from collections.abc import Collection

from sqlalchemy import select
from sqlalchemy.orm import Session

from minova.db.models import ProviderTrait
from minova.placement.providers import of_node, queries, traits

# What a compute says of itself begins so. Everything else, such as CUSTOM_ traits, is the operator's, and stays.
OWN_PREFIXES = ("COMPUTE_", "HW_")

# Built once: every audit of every node asks it.
_BEFORE = select(ProviderTrait.trait).where(ProviderTrait.provider_id == of_node.ID.scalar_subquery())


def publish(session: Session, provider_uuid: str, names: Collection[str]) -> None:
    """NotFound: no such provider, or a trait that there is not. Conflict: the provider is changed at the same time."""
    before = set(session.scalars(_BEFORE, {"of": provider_uuid}))
    if _wanted(before, names) == before:
        return
    # Read again after the generation: a trait that is set in between is not removed unseen.
    provider = queries.find(session, provider_uuid)
    before = {trait.name for trait in traits.of_provider(session, provider.id)}
    traits.set_traits(session, provider, _wanted(before, names))


def _wanted(before: Collection[str], names: Collection[str]) -> set[str]:
    return {*names, *(name for name in before if not name.startswith(OWN_PREFIXES))}
