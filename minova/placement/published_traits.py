"""Traits that a compute publishes of its node, beside those that people give its provider."""

from collections.abc import Collection

from sqlalchemy.orm import Session

from minova.placement import provider_query, traits

# What a compute says of itself begins so. Everything else, such as CUSTOM_ traits, is the operator's, and stays.
OWN_PREFIXES = ("COMPUTE_", "HW_")


def publish(session: Session, provider_uuid: str, names: Collection[str]) -> None:
    """NotFound: no such provider, or a trait that there is not."""
    provider = provider_query.find(session, provider_uuid)
    before = {one.name for one in traits.of_provider(session, provider.id)}
    given = {name for name in before if not name.startswith(OWN_PREFIXES)}
    if given | set(names) != before:
        traits.set_traits(session, provider, given | set(names))
