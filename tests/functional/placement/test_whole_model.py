"""All that changes Placement, thousands of steps, against plain Python that makes its sums anew."""

import os
import tempfile
from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from sqlalchemy import select
from sqlalchemy.orm import Session

from minova import errors
from minova.db import models
from minova.db.engine import Database
from minova.placement.allocations import claims, writes
from minova.placement.providers import aggregates, inventories, queries, traits, trees
from minova.placement.providers.inventories import Numbers
from tests.conformance.placement.minova_cloud import empty
from tests.functional.placement.candidate_cases import candidate_request, find, text
from tests.functional.placement.naive_candidates import Naive
from tests.functional.placement.naive_placement import DONE, NaivePlacement
from tests.functional.scheduler.cloud import fresh

# The nightly run has more.
SEQUENCES = int(os.environ.get("MINOVA_SEQUENCES", "12"))
PROVIDERS = ("a", "b", "c", "d")
CONSUMERS = ("one", "two", "three")
CLASSES = ("VCPU", "MEMORY_MB")
TRAITS = ("HW_CPU_X86_AVX", "STORAGE_DISK_SSD", "MISC_SHARES_VIA_AGGREGATE")
AGGREGATES = tuple(f"{digit * 8}-0000-4000-8000-000000000000" for digit in "12")
QUERIES = (
    "resources=VCPU:1,MEMORY_MB:2",
    "resources=VCPU:2&resources_A=MEMORY_MB:1&required_A=HW_CPU_X86_AVX",
    "resources_A=VCPU:1&resources_B=VCPU:1&group_policy=isolate&same_subtree=_A,_B",
    f"resources=VCPU:1,MEMORY_MB:1&member_of={AGGREGATES[0]}&required=!STORAGE_DISK_SSD",
)

provider = st.sampled_from(PROVIDERS)
consumer = st.sampled_from(CONSUMERS)
resources = st.dictionaries(st.sampled_from(CLASSES), st.integers(1, 4), min_size=1)
holdings = st.dictionaries(provider, resources, max_size=2)
numbers = st.builds(
    Numbers,
    total=st.integers(4, 8),
    reserved=st.integers(0, 1),
    min_unit=st.sampled_from([1, 1, 1, 2]),
    max_unit=st.sampled_from([3, 8]),
    step_size=st.sampled_from([1, 1, 1, 2]),
    allocation_ratio=st.sampled_from([1.0, 1.5]),
)
stale = st.sampled_from([False] * 7 + [True])


class Model(RuleBasedStateMachine):
    db: Database

    def __init__(self) -> None:
        super().__init__()
        empty(self.db)
        self.naive = NaivePlacement()
        for name, parent in (("a", None), ("b", "a"), ("c", None)):
            self.create(name, parent)
            self.set_inventories(name, dict.fromkeys(CLASSES, Numbers(total=8)), False)

    def outcome(self, work: Callable[[Session], Any]) -> str:
        try:
            self.db.run(work)
        except errors.MinovaError as error:
            return type(error).__name__
        return DONE

    def there(self, name: str) -> bool:
        return name in self.naive.providers

    # -- providers -------------------------------------------------------------------------------------------------

    @rule(name=provider, parent=st.none() | provider)
    def create(self, name: str, parent: str | None) -> None:
        outcome = self.outcome(lambda session: trees.create(session, name, f"named {name}", parent))
        assert outcome == self.naive.create(name, parent)

    @rule(name=provider, parent=st.none() | provider)
    def move(self, name: str, parent: str | None) -> None:
        if not self.there(name):
            return

        def work(session: Session) -> None:
            trees.change(session, queries.find(session, name), f"named {name}", parent, reparenting=True)

        assert self.outcome(work) == self.naive.move(name, parent)

    @rule(name=provider, sure=stale)
    def remove(self, name: str, sure: bool) -> None:
        if self.there(name) and sure:
            outcome = self.outcome(lambda session: trees.remove(session, queries.find(session, name)))
            assert outcome == self.naive.remove(name)

    @rule(name=provider, wanted=st.dictionaries(st.sampled_from(CLASSES), numbers), old=stale)
    def set_inventories(self, name: str, wanted: dict[str, Numbers], old: bool) -> None:
        result = self.change(name, old, lambda session, of: inventories.replace(session, of, wanted))
        assert result in (None, self.there(name) and self.naive.set_inventories(name, wanted, stale=old))

    @rule(name=provider, wanted=st.sets(st.sampled_from(TRAITS)), old=stale)
    def set_traits(self, name: str, wanted: set[str], old: bool) -> None:
        result = self.change(name, old, lambda session, of: traits.set_traits(session, of, wanted))
        assert result in (None, self.there(name) and self.naive.set_traits(name, wanted, stale=old))

    @rule(name=provider, wanted=st.sets(st.sampled_from(AGGREGATES)), old=stale)
    def set_aggregates(self, name: str, wanted: set[str], old: bool) -> None:
        def work(session: Session, of: Any) -> None:
            aggregates.set_aggregates(session, of, wanted, generation=True)

        result = self.change(name, old, work)
        assert result in (None, self.there(name) and self.naive.set_aggregates(name, wanted, stale=old))

    def change(self, name: str, old: bool, work: Callable[[Session, Any], Any]) -> str | None:
        """None: there is no such provider. `old`: by the generation before."""
        if not self.there(name):
            return None

        def by_generation(session: Session) -> None:
            record = queries.find(session, name)
            work(session, queries.ProviderRecord(**_fields(record) | {"generation": record.generation - old}))

        return self.outcome(by_generation)

    # -- allocations -----------------------------------------------------------------------------------------------

    @rule(wanted=st.dictionaries(consumer, holdings, min_size=1, max_size=2), old=stale)
    def put(self, wanted: dict[str, dict[str, dict[str, int]]], old: bool) -> None:
        seen = {name: self.naive.generation_of(name) for name in wanted}
        if old:
            seen = {name: (generation or 0) + 5 for name, generation in seen.items()}
        rows = [
            writes.ConsumerAllocations(consumer_uuid=name, allocations=held, generation=seen[name])
            for name, held in wanted.items()
        ]
        outcome = self.outcome(lambda session: writes.replace(session, rows))
        assert outcome == self.naive.put(wanted, seen)

    @rule(name=consumer)
    def delete(self, name: str) -> None:
        assert self.outcome(lambda session: writes.remove(session, name)) == self.naive.delete(name)

    @rule(name=consumer, at=provider, wanted=resources)
    def claim(self, name: str, at: str, wanted: dict[str, int]) -> None:
        if not self.there(at):
            return
        number = self.naive.rows.get(name, (0, 0))[1] + 1
        allocation_claim = claims.AllocationClaim(
            consumer_uuid=name, claim_number=number, provider_uuid=at, resources=wanted
        )
        refused = self.db.run(lambda session: claims.claim(session, [allocation_claim]))
        assert (not refused) == self.naive.claim(name, at, wanted)

    @rule(name=consumer)
    def release(self, name: str) -> None:
        self.db.run(lambda session: claims.release(session, [name]))
        self.naive.release(name)

    # -- looks -----------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.naive.providers) > 1)
    @rule(query=st.sampled_from(QUERIES))
    def ask_for_candidates(self, query: str) -> None:
        request = candidate_request(query)
        candidates = {text(candidate) for candidate in find(self.db, request).candidates}
        assert candidates == Naive(self.naive.cloud()).candidates(request)

    @invariant()
    def everything_agrees(self) -> None:
        with self.db.read() as session:
            assert _providers(session) == {
                name: (naive_provider.parent, self.naive.root_of(name), naive_provider.generation)
                for name, naive_provider in self.naive.providers.items()
            }
            used = self.naive.used()
            assert _inventories(session) == {
                (name, of): (numbers.capacity, used[name, of])
                for name, naive_provider in self.naive.providers.items()
                for of, numbers in naive_provider.inventories.items()
            }
            assert _held(session) == {
                (name, at, of): amount
                for name, allocations in self.naive.held.items()
                for at, resources in allocations.items()
                for of, amount in resources.items()
            }
            rows = session.execute(
                select(models.Consumer.uuid, models.Consumer.generation, models.Consumer.claim_number)
            )
            assert {row[0]: (row[1], row[2]) for row in rows} == self.naive.rows


def _fields(record: queries.ProviderRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


def _providers(session: Session) -> dict[str, tuple[str | None, str, int]]:
    records = queries.matching(session, queries.ProviderFilter())
    return {record.uuid: (record.parent_uuid, record.root_uuid, record.generation) for record in records}


def _inventories(session: Session) -> dict[tuple[str, str], tuple[int, int]]:
    inventory, of = models.Inventory, models.ResourceProvider
    query = select(of.uuid, inventory.resource_class, inventory.capacity, inventory.used)
    rows = session.execute(query.join(of, of.id == inventory.provider_id))
    return {(row[0], row[1]): (row[2], row[3]) for row in rows}


def _held(session: Session) -> dict[tuple[str, str, str], int]:
    allocation, of = models.Allocation, models.ResourceProvider
    query = select(allocation.consumer_uuid, of.uuid, allocation.resource_class, allocation.used)
    rows = session.execute(query.join(of, of.id == allocation.provider_id))
    return {(row[0], row[1], row[2]): row[3] for row in rows}


def run(steps: int, examples: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Model.db = fresh(f"sqlite:///{folder}/minova.sqlite")
        case = Model.TestCase
        case.settings = settings(max_examples=examples, stateful_step_count=steps, deadline=None)
        try:
            case().runTest()
        finally:
            Model.db.close()


def test_thousands_of_changes_come_to_what_plain_sums_say() -> None:
    run(steps=50, examples=SEQUENCES)
