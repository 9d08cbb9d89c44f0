"""Notifications of moves, which a whole simulated cloud makes: Nova's, by its samples (tests/conformance/notification_samples.py)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from oslo_messaging.notify import _impl_test

from minova import errors
from minova.context import RequestContext
from minova.messaging.notifier import Notifier
from tests.conformance.notification_samples import SAMPLES, require_payload
from tests.faults.cloud import LARGER
from tests.faults.mover import Mover
from tests.unit.messaging.test_notifier import conf_of

pytestmark = pytest.mark.timeout(300)
CTX = RequestContext(request_id="req-order", user_id="u", project_id="p", is_admin=True)


class Watched(NamedTuple):
    mover: Mover
    notifier: Notifier

    def messages(self) -> list[tuple[dict[str, Any], str]]:
        """Those sent so far, with their priorities."""
        self.notifier.stop()
        return [(message, priority) for _, message, priority, _ in _impl_test.NOTIFICATIONS]


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    _impl_test.reset()
    notifier = Notifier(conf_of(["test"], notification_format="both"))
    mover = Mover(tmp_path, notifier=notifier)
    for driver in mover.cloud.drivers.values():
        driver.between_rounds = lambda: mover.world.run(1.0)
    try:
        yield Watched(mover, notifier)
    finally:
        mover.cloud.world.close()
        notifier.stop()
        _impl_test.reset()


def told(watched: Watched) -> list[tuple[str, str]]:
    """(host, event) of the versioned notifications of moves, each as in its sample. The unversioned ones are the same, in Nova's
    other names.
    """
    versioned: list[tuple[str, str]] = []
    unversioned: list[str] = []
    for message, priority in watched.messages():
        name = message["event_type"]
        if name.startswith(("compute.instance.create", "instance.create")):
            continue
        if name.startswith("compute.instance."):
            unversioned.append(name.removeprefix("compute.instance."))
            continue
        sample = SAMPLES["events"][name]
        service, _, host = message["publisher_id"].partition(":")
        assert (service, priority) == (sample["source"], sample["priority"])
        assert message["payload"]["nova_object.name"] == sample["payload"]
        require_payload(message["payload"])
        versioned.append((host, name.removeprefix("instance.")))
    names = [name for _, name in versioned]
    assert unversioned == [UNVERSIONED.get(name, name) for name in names]
    return versioned


def pair(host: str, *events: str) -> list[tuple[str, str]]:
    return [(host, f"{event}.{phase}") for event in events for phase in ("start", "end")]


UNVERSIONED = {
    f"{action}.{phase}": f"{other}.{phase}"
    for phase in ("start", "end")
    for action, other in {
        "resize_prep": "resize.prep",
        "resize_finish": "finish_resize",
        "resize_confirm": "resize.confirm",
        "resize_revert": "resize.revert",
        "live_migration_pre": "live_migration.pre",
        "live_migration_post": "live_migration._post",
        "live_migration_post_dest": "live_migration.post.dest",
        "live_migration_rollback": "live_migration._rollback",
        "live_migration_rollback_dest": "live_migration.rollback.dest",
        "live_migration_abort": "live.migration.abort",
        "live_migration_force_complete": "live.migration.force.complete",
    }.items()
}


def test_a_resize_its_revert_and_its_confirmation(watched: Watched) -> None:
    mover = watched.mover
    source, there = mover.source, mover.other
    mover.do("resize", LARGER)
    mover.do("revert_resize")
    mover.do("resize", LARGER)
    mover.do("confirm_resize")
    forth = [*pair(there, "resize_prep"), *pair(source, "resize"), *pair(there, "resize_finish")]
    assert told(watched) == [*forth, *pair(source, "resize_revert"), *forth, *pair(source, "resize_confirm")]
    prepared = [message["payload"] for message, _ in watched.messages() if "resize_prep" in message["event_type"]]
    flavors = [payload["nova_object.data"]["new_flavor"]["nova_object.data"]["flavorid"] for payload in prepared]
    assert flavors == [LARGER.flavorid] * 4


def test_a_migration_that_fails(watched: Watched) -> None:
    mover = watched.mover
    there = mover.other
    mover.cloud.drivers[there].fail("import_disks", [errors.HypervisorError("no room")])
    mover.do("migrate")
    assert told(watched) == [*pair(there, "resize_prep"), (mover.source, "resize.start"), (there, "resize.error")]
    fault = watched.messages()[-1][0]["payload"]["nova_object.data"]["fault"]["nova_object.data"]
    assert "no room" in fault["exception_message"]


def test_live_migrations(watched: Watched) -> None:
    mover = watched.mover
    source, there = mover.source, mover.other
    ordered: list[str] = []

    def order() -> None:
        if not ordered and mover.migration().status == "migrating":
            ordered.append(mover.migration().uuid)
            mover.cloud.conductor.cancel_move(CTX, instance_uuid=mover.uuid, migration_uuid=ordered[0])
        mover.world.run(2.0)

    driver = mover.cloud.drivers[source]
    driver.between_rounds, driver.live_rounds = order, 6
    mover.do("live_migrate")
    assert mover.migration().status == "cancelled"
    mover.do("live_migrate")
    assert mover.row.host == there
    assert told(watched) == [
        *pair(there, "live_migration_pre"),
        *pair(source, "live_migration_abort"),
        (source, "live_migration_rollback.start"),
        *pair(there, "live_migration_rollback_dest"),
        (source, "live_migration_rollback.end"),
        *pair(there, "live_migration_pre"),
        (source, "live_migration_post.start"),
        *pair(there, "live_migration_post_dest"),
        (source, "live_migration_post.end"),
    ]
