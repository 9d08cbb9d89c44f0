"""Traits that a compute publishes for its node, besides those that users give the node's provider."""

from collections.abc import Collection

from sqlalchemy import select
from sqlalchemy.orm import Session

from minova.db.models import ProviderTrait
from minova.objects.network import physical_networks
from minova.placement.providers import of_node, queries, traits

# Prefixes of the traits that a compute publishes. All other traits, such as other CUSTOM_ traits, belong to the
# operator and stay.
OWN_PREFIXES = ("COMPUTE_", "HW_", physical_networks.TRAIT_PREFIX)

# Built once: every audit of every node runs it.
_BEFORE = select(ProviderTrait.trait).where(ProviderTrait.provider_id == of_node.ID.scalar_subquery())


def publish(session: Session, provider_uuid: str, names: Collection[str], segments: Collection[str] = ()) -> None:
    """`segments`: the physical networks for which the node has bridges. Missing traits of these are created, and those that no
    provider has any more are removed: a stolen host could make new ones without end.

    Raises NotFound if there is no such provider or trait, Conflict if the provider is changed at the same time.
    """
    of_segments = {physical_networks.trait_of(segment) for segment in segments}
    names = {*names, *of_segments}
    before = set(session.scalars(_BEFORE, {"of": provider_uuid}))
    if _new_traits(before, names) == before:
        return
    traits.make_several(session, of_segments)
    # Read again after the generation, so that a trait that is set in between is not removed unseen.
    provider = queries.find(session, provider_uuid)
    before = {trait.name for trait in traits.of_provider(session, provider.id)}
    after = _new_traits(before, names)
    traits.set_traits(session, provider, after)
    removed_traits = {name for name in before - after if name.startswith(physical_networks.TRAIT_PREFIX)}
    traits.remove_unused(session, removed_traits)


def _new_traits(before: Collection[str], names: Collection[str]) -> set[str]:
    return {*names, *(name for name in before if not name.startswith(OWN_PREFIXES))}
