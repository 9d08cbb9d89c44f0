"""Whatever happens, in whatever order: usage = reserved + instances + moves, wherever it is written down."""

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from minova import errors
from minova.objects.servers.migration import MigrationType
from minova.objects.servers.states import VmState
from tests.functional.compute.migration_world import FLAVORS, HOSTS, World

# 50 sequences in CI; the nightly run asks for 2,000.
SEQUENCES = int(os.environ.get("MINOVA_SEQUENCES", "6"))
MOVES = [MigrationType.RESIZE, MigrationType.MIGRATION, MigrationType.LIVE_MIGRATION, MigrationType.EVACUATION]
ENDS = {
    MigrationType.RESIZE: "finished",
    MigrationType.MIGRATION: "finished",
    MigrationType.LIVE_MIGRATION: "completed",
    MigrationType.EVACUATION: "done",
}
PICK = st.integers(0, 1000)


class Life(RuleBasedStateMachine):
    tables: Path

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.world = World(Path(self.folder.name) / "world", self.tables)

    def teardown(self) -> None:
        self.world.close()
        self.folder.cleanup()

    # -- what may happen -------------------------------------------------------------------------------------------

    @rule(which=st.sampled_from(FLAVORS))
    def boot(self, which: Any) -> None:
        self.world.boot(which)

    @rule(which=st.sampled_from(FLAVORS), host=st.sampled_from(HOSTS))
    def boot_while_a_host_fails(self, which: Any, host: str) -> None:
        def fail(operation: str) -> None:
            if operation == "power_on":
                raise errors.HypervisorUnavailable("broken")

        machine = self.world.machines[host]
        machine.on_call = fail
        self.world.boot(which)
        machine.on_call = lambda operation: None

    @precondition(lambda self: self.alive())
    @rule(pick=PICK)
    def delete(self, pick: int) -> None:
        idle = [uuid for uuid in self.alive() if uuid not in self.world.moves]
        if idle:
            self.world.delete(idle[pick % len(idle)])

    @precondition(lambda self: self.alive())
    @rule(pick=PICK, kind=st.sampled_from(MOVES), dest=st.sampled_from(HOSTS), which=st.sampled_from(FLAVORS))
    def move(self, pick: int, kind: MigrationType, dest: str, which: Any) -> None:
        alive = self.alive()
        uuid = alive[pick % len(alive)]
        row = next(row for row in self.world.instances() if row.uuid == uuid)
        same = row.flavor
        if kind is not MigrationType.RESIZE and dest == row.host:
            return
        self.world.move(uuid, kind, dest, which if kind is MigrationType.RESIZE else same)

    @precondition(lambda self: self.moving())
    @rule(pick=PICK, status=st.sampled_from(["migrating", "end", "end", "error"]))
    def go_on(self, pick: int, status: str) -> None:
        moving = self.moving()
        uuid = moving[pick % len(moving)]
        migration = self.world.moves[uuid]
        if status == "migrating" and migration.status == "migrating":
            return
        self.world.step(uuid, ENDS[migration.migration_type] if status == "end" else status)

    @precondition(lambda self: self.finished())
    @rule(pick=PICK, status=st.sampled_from(["confirmed", "reverted"]))
    def decide(self, pick: int, status: str) -> None:
        finished = self.finished()
        self.world.step(finished[pick % len(finished)], status)

    @rule(host=st.sampled_from(HOSTS))
    def crash(self, host: str) -> None:
        self.world.start(host)

    @rule(host=st.sampled_from(HOSTS))
    def audit(self, host: str) -> None:
        self.world.computes[host].update_available_resource()
        self.world.settle()

    @rule()
    def time_passes(self) -> None:
        self.world.tick()

    # -- who there is, in the order in which they came: uuids are drawn at random ----------------------------------------------------------------------------------------------

    def alive(self) -> list[str]:
        rows = self.world.instances()
        return [row.uuid for row in rows if row.host and row.vm_state == VmState.ACTIVE]

    def moving(self) -> list[str]:
        return [uuid for uuid, migration in self.world.moves.items() if not migration.switched]

    def finished(self) -> list[str]:
        return [uuid for uuid, migration in self.world.moves.items() if migration.status == "finished"]

    @invariant()
    def everything_agrees(self) -> None:
        assert self.world.violations() == []


@pytest.mark.timeout(0)
def test_usage_is_the_same_wherever_it_is_written_down(tables: Path) -> None:
    life_class = type("LifeHere", (Life,), {"tables": tables})
    run_state_machine_as_test(
        life_class,
        settings=settings(
            max_examples=SEQUENCES,
            stateful_step_count=15,
            deadline=None,
            phases=[Phase.generate],
            print_blob=True,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
