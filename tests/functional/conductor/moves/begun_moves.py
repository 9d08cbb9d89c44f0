"""Moves that are begun as users request them, and claimed by their destination."""

import msgspec
import pytest
from sqlalchemy import select

from minova.db import models
from minova.objects.actions.moves import MoveRequest
from minova.objects.servers.migration import Migration
from minova.objects.servers.moves import MovePhase, PhaseKey
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, new_request


def begin(harness: ConductorHarness, uuid: str, destination: str = "b") -> Migration:
    """A cold migration that is scheduled to this host."""
    harness.scheduler.order = [destination]
    arguments = msgspec.to_builtins(MoveRequest(host=destination))
    harness.conductor.start_action(new_request(), instance_uuid=uuid, action="migrate", arguments=arguments)
    harness.settle()
    return migration_of(harness, uuid)


def claimed(harness: ConductorHarness, uuid: str, destination: str = "b") -> Migration:
    migration = begin(harness, uuid, destination)
    return harness.conductor.claim_move(CTX, migration=migration, node=harness.node(destination))


def migration_of(harness: ConductorHarness, uuid: str) -> Migration:
    with harness.db.read() as session:
        query = select(models.Migration.value).where(models.Migration.instance_uuid == uuid)
        return session.scalars(query.order_by(models.Migration.id.desc())).first() or pytest.fail("no migration")


def key(migration: Migration, phase: MovePhase) -> PhaseKey:
    return PhaseKey(
        migration_uuid=migration.uuid, instance_uuid=migration.instance_uuid, phase=phase, attempt=migration.attempt
    )
