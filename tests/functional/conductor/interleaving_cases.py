"""What others do between two statements of one work, or before its commit."""

from typing import Any

from sqlalchemy import Connection, event, insert, literal, select
from sqlalchemy.orm import Session

from minova.conductor.hosts.liveness import Liveness
from minova.conductor.hosts.services import Services
from minova.conductor.hosts.witnesses import Witnesses
from minova.conductor.tasks.worker import TaskWorker
from minova.db import models
from minova.db.models import ProviderTrait, Trait
from minova.objects.hosts.service import Service
from minova.placement.providers import queries, traits
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.scheduler.cloud import named


class InterleavingCases:
    def test_a_trait_that_people_give_while_a_node_publishes_its_own_stays(self, harness: ConductorHarness) -> None:
        node, own, waiting = harness.audit("a"), ("HW_CPU_X86_AVX2",), [True]

        def of_node(session: Session) -> set[str]:
            return {trait.name for trait in traits.of_provider(session, queries.find(session, node.uuid).id)}

        def give(connection: Connection, _cursor: object, statement: str, *_more: object) -> None:
            if waiting and "FROM resource_provider_traits" in statement:
                waiting.clear()
                given = select(models.ResourceProvider.id, literal("CUSTOM_SSD"))
                given = given.where(models.ResourceProvider.uuid == node.uuid)
                connection.execute(insert(Trait), {"name": "CUSTOM_SSD", "updated_at": 0.0})
                connection.execute(insert(ProviderTrait).from_select(["provider_id", "trait"], given))

        event.listen(harness.db.engine, "after_cursor_execute", give)
        try:
            harness.conductor.finish_audit(CTX, node=node, inventories=(), traits=own)
        finally:
            event.remove(harness.db.engine, "after_cursor_execute", give)
        with harness.db.read() as session:
            assert of_node(session) == {"CUSTOM_SSD", *own}

    def test_who_registers_while_silence_is_looked_for_is_not_dead(self, harness: ConductorHarness) -> None:
        coming = [Service(uuid=named("service late"), host="late", binary="minova-compute", topic="compute")]

        def register(*execution: Any) -> None:
            while coming and "FROM" in execution[2]:
                harness.conductor.register_service(CTX, service=coming.pop())

        event.listen(harness.db.engine, "after_cursor_execute", register)
        try:
            assert Liveness(harness.db, down_time=60, clock=lambda: harness.now).down_hosts() == frozenset()
        finally:
            event.remove(harness.db.engine, "after_cursor_execute", register)
        assert coming == []

    def test_who_looks_while_a_host_says_that_it_cannot_work_knows_it_right_after(
        self, harness: ConductorHarness
    ) -> None:
        def clock() -> float:
            return harness.now

        liveness = Liveness(harness.db, down_time=60, clock=clock)
        worker = TaskWorker(harness.db, host="two", lease=60, threads=1, clock=clock, spawn=lambda work: work())
        own = Service(uuid=named("service two"), host="two", binary="minova-conductor", topic="conductor")
        services = Services(harness.conf(), worker, liveness, Witnesses(worker), own=own, clock=clock)
        seen: list[frozenset[str]] = []

        def look(_connection: object) -> None:
            if not seen:
                seen.append(frozenset())
                seen.append(liveness.down_hosts())

        event.listen(harness.db.engine, "commit", look)
        try:
            services.heartbeat(CTX, "a", "minova-compute", "libvirtd is away")
        finally:
            event.remove(harness.db.engine, "commit", look)
        assert (seen[-1], liveness.down_hosts()) == (frozenset(), frozenset({"a"}))
