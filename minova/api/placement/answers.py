"""The answers of Placement at its newest microversion, only for the description:
tests/functional/api/placement/test_description.py compares them.
"""

import msgspec


class PlacementLink(msgspec.Struct, frozen=True, kw_only=True):
    rel: str
    href: str


class ClassAnswer(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    links: tuple[PlacementLink, ...]


class ProviderAnswer(msgspec.Struct, frozen=True, kw_only=True):
    uuid: str
    name: str
    generation: int
    links: tuple[PlacementLink, ...]
    parent_provider_uuid: str | None
    root_provider_uuid: str


class InventoryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    total: int
    reserved: int
    min_unit: int
    max_unit: int
    step_size: int
    allocation_ratio: float


class OneInventoryAnswer(InventoryAnswer, frozen=True, kw_only=True):
    resource_provider_generation: int


class HeldByConsumer(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts by resource class."""

    resources: dict[str, int]
    consumer_generation: int | None


class HeldOfProvider(msgspec.Struct, frozen=True, kw_only=True):
    resources: dict[str, int]
    generation: int


class ClassAmounts(msgspec.Struct, frozen=True, kw_only=True):
    capacity: int
    used: int


class ProviderSummary(msgspec.Struct, frozen=True, kw_only=True):
    resources: dict[str, ClassAmounts]
    traits: tuple[str, ...]
    parent_provider_uuid: str | None
    root_provider_uuid: str


class ProviderResources(msgspec.Struct, frozen=True, kw_only=True):
    resources: dict[str, int]


class CandidateAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`allocations`: by provider.
    `mappings`: the providers of each group of the request.
    """

    allocations: dict[str, ProviderResources]
    mappings: dict[str, tuple[str, ...]]
