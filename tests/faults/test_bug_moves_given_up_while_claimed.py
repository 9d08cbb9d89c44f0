"""A move is given up while its destination claims for it: the destination counts it no more, long before its next audit."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select

from minova import errors
from minova.context import RequestContext
from minova.db.models import ComputeNode
from tests.faults.mover import Mover
from tests.faults.test_evacuation import force
from tests.faults.test_orders_of_live_migrations import Orders

pytestmark = pytest.mark.timeout(300)
Used = dict[str, tuple[int, int, int]]


def used(mover: Mover) -> Used:
    with mover.cloud.db.read() as session:
        return {
            node.host: (node.vcpus_used, node.memory_mb_used, node.local_gb_used)
            for node in session.scalars(select(ComputeNode))
        }


def while_claimed(mover: Mover, work: Callable[[], object]) -> list[Used]:
    """Does this once, when the destination has claimed and is about to report that. Returns what is used then."""
    seen: list[Used] = []

    def interrupted() -> bool:
        if not seen:
            seen.append(used(mover))
            work()
        return False

    for host in {*mover.cloud.hosts} - {mover.source}:
        mover.cloud.drivers[host].needs_image = interrupted  # type: ignore[method-assign]
    return seen


@pytest.mark.parametrize("kind", ["migrate", "live_migrate"])
@pytest.mark.parametrize("how", ["abort", "delete"])
def test_bug_destination_counts_a_move_given_up_until_its_audit(tmp_path: Path, kind: str, how: str) -> None:
    mover = Mover(tmp_path, update_resources_interval=100_000)
    try:
        there, before = mover.other, used(mover)
        delete = lambda: mover.cloud.conductor.delete_server(  # noqa: E731
            RequestContext(request_id="req-delete", user_id="u", project_id="p"), instance_uuid=mover.uuid
        )
        mover.cloud.delete_asked.add(mover.uuid)
        seen = while_claimed(mover, delete if how == "delete" else lambda: Orders(mover)("abort"))
        mover.ask(kind)
        mover.wait(lambda: bool(seen), step=0.1)
        assert seen[0][there] > before[there]
        mover.wait()
        mover.world.run(5.0)
        assert used(mover)[there] == before[there]
        assert mover.cloud.violations() == []
    finally:
        mover.cloud.world.close()


def test_bug_alternate_of_a_move_keeps_the_old_name_of_a_renamed_host(tmp_path: Path) -> None:
    """The alternate is renamed while the first destination claims, which then cannot take the server."""
    mover = Mover(tmp_path, hosts=3)
    cloud = mover.cloud
    try:

        def rename_the_other() -> None:
            (other,) = {*cloud.hosts} - {mover.source, str(mover.migration().dest_compute)}
            force(cloud, other, down=True)
            cloud.rename(other, "renamed")
            force(cloud, "renamed", down=False)
            raise errors.ComputeResourcesUnavailable("no room")

        seen = while_claimed(mover, rename_the_other)
        mover.ask("migrate")
        mover.wait()
        assert seen
        assert mover.state == ("resized", None, "renamed")
        mover.require_sound()
    finally:
        cloud.world.close()
