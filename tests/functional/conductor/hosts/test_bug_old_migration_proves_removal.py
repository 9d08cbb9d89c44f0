"""Any ended migration of a server counted as proof that its domain on one of both hosts may be removed: also after another one had
brought the server back, so that the only copy that ran was removed.
"""

import itertools
from typing import Any

import pytest
from sqlalchemy import update

from minova.db import models
from minova.db.servers import migrations
from minova.objects.servers.migration import Migration, MigrationType
from tests.functional.conductor.conductor_harness import CTX, FLAVOR, ConductorHarness

NUMBERS = itertools.count()


def moved(
    harness: ConductorHarness,
    uuid: str,
    source: str,
    dest: str,
    attempt: int,
    status: str = "completed",
    kind: MigrationType = MigrationType.LIVE_MIGRATION,
    **values: Any,
) -> None:
    migration = Migration(
        uuid=f"00000000-0000-4000-8000-{next(NUMBERS):012d}",
        instance_uuid=uuid,
        migration_type=kind,
        status=status,
        source_compute=source,
        source_node=f"{source}-node",
        dest_compute=dest,
        dest_node=f"{dest}-node",
        old_flavor=FLAVOR,
        new_flavor=FLAVOR,
        attempt=attempt,
        **values,
    )
    with harness.db.write() as session:
        migrations.add(session, migration, migration.created_at or harness.conductor.worker.at(), harness.db.now())


def is_to_go(harness: ConductorHarness, host: str, uuid: str, attempt: int) -> bool:
    inputs = harness.conductor.begin_audit(CTX, host=host, view=harness.view(host, uuid, attempt=attempt))
    return uuid in inputs.unexpected_domains


def set_row(harness: ConductorHarness, uuid: str, **values: object) -> None:
    with harness.db.write() as session:
        session.execute(update(models.Instance).where(models.Instance.uuid == uuid).values(**values))


@pytest.mark.parametrize("attempt", [0, 2])
def test_the_copy_that_came_back_is_not_removed(harness: ConductorHarness, attempt: int) -> None:
    """The row is older: it names the host from which the server has come back. `attempt` 0: of a release without them."""
    uuid = harness.active("a")
    moved(harness, uuid, "a", "b", 1 if attempt else 0)
    moved(harness, uuid, "b", "a", attempt)
    set_row(harness, uuid, host="b", node="b-node", attempt=2)
    assert not is_to_go(harness, "a", uuid, 2)


def test_a_copy_that_left_by_an_earlier_attempt_is_removed(harness: ConductorHarness) -> None:
    uuid = harness.active("a")
    moved(harness, uuid, "a", "b", 2)
    set_row(harness, uuid, host="b", node="b-node", attempt=2)
    assert is_to_go(harness, "a", uuid, 1)
    assert not is_to_go(harness, "a", uuid, 2)


def test_what_a_failed_migration_did_not_bring_is_removed(harness: ConductorHarness) -> None:
    uuid = harness.active("a")
    moved(harness, uuid, "a", "b", 2, status="error")
    assert is_to_go(harness, "b", uuid, 2)
    moved(harness, uuid, "a", "b", 2)
    assert not is_to_go(harness, "b", uuid, 2)
