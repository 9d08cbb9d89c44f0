"""Claims and releases, thousands of steps, against the sum of allocations kept in a dict."""

import tempfile
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from minova import errors
from minova.placement.allocations import claims as allocations
from tests.functional.placement.cases import claim, claim_of, hosts, release
from tests.functional.scheduler.cloud import fresh, inventory_rows, named

CONSUMERS = ("one", "two", "three", "four")
HOSTS = ("a", "b")
CAPACITY = {"VCPU": 4, "MEMORY_MB": 4096, "DISK_GB": 100}

resources = st.fixed_dictionaries(
    {"VCPU": st.integers(1, 4)}, optional={"MEMORY_MB": st.sampled_from([1000, 2000, 4000])}
)
new_claims = st.tuples(st.sampled_from(CONSUMERS), st.sampled_from(HOSTS), resources)


class AllocationModel(RuleBasedStateMachine):
    """`held`: {consumer: (host, resources)}; `seen`: the highest claim number of each that was not refused."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.db = fresh(f"sqlite:///{self.folder.name}/minova.sqlite")
        hosts(self.db, *HOSTS)
        self.held: dict[str, tuple[str, dict[str, int]]] = {}
        self.seen: dict[str, int] = {}

    def teardown(self) -> None:
        self.db.close()
        self.folder.cleanup()

    def used(self, host: str, name: str, without: str = "") -> int:
        return sum(r.get(name, 0) for c, (h, r) in self.held.items() if h == host and c != without)

    def fits(self, consumer: str, host: str, asked: dict[str, int]) -> bool:
        if self.held.get(consumer) == (host, asked):
            return True
        return all(self.used(host, name, without=consumer) + n <= CAPACITY[name] for name, n in asked.items())

    @rule(batch=st.lists(new_claims, min_size=1, max_size=4, unique_by=lambda w: w[0]))
    def claim(self, batch: list[tuple[str, str, dict[str, int]]]) -> None:
        expected = set()
        claims = []
        for consumer, host, amounts in batch:
            number = self.seen.get(consumer, 0) + 1
            claims.append(claim_of(consumer, host, number, **amounts))
            if self.fits(consumer, host, amounts):
                self.held[consumer] = (host, amounts)
                self.seen[consumer] = number
            else:
                self.seen.setdefault(consumer, number)
                expected.add(named(consumer))
        assert set(claim(self.db, *claims)) == expected

    @rule(consumer=st.sampled_from(CONSUMERS), host=st.sampled_from(HOSTS), asked=resources)
    def claim_late(self, consumer: str, host: str, asked: dict[str, int]) -> None:
        if self.seen.get(consumer, 0) > 0:
            with pytest.raises(errors.StaleClaim):
                claim(self.db, claim_of(consumer, host, self.seen[consumer] - 1, **asked))

    @rule(consumer=st.sampled_from(CONSUMERS), host=st.sampled_from(HOSTS), asked=resources)
    def claim_again(self, consumer: str, host: str, asked: dict[str, int]) -> None:
        """Under the number that it holds something for: the same claim is given, another one is not."""
        if consumer not in self.held:
            return
        again = claim_of(consumer, host, self.seen[consumer], **asked)
        if self.held[consumer] == (host, asked):
            assert claim(self.db, again) == {}
        else:
            with pytest.raises(errors.StaleClaim):
                claim(self.db, again)

    @rule(consumers=st.sets(st.sampled_from(CONSUMERS)))
    def release(self, consumers: set[str]) -> None:
        release(self.db, *consumers)
        for consumer in consumers:
            self.held.pop(consumer, None)
            if consumer in self.seen:
                self.seen[consumer] += 1

    @invariant()
    def the_books_agree(self) -> None:
        for host, name, capacity, used, allocated in inventory_rows(self.db):
            assert used == allocated == self.used(host, name) <= capacity
        for host in HOSTS:
            with self.db.read() as session:
                consumers: Any = allocations.consumers_of(session, named(f"node {host}"))
            assert set(consumers) == {named(c) for c, (h, _) in self.held.items() if h == host}


TestBooks = AllocationModel.TestCase
TestBooks.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
