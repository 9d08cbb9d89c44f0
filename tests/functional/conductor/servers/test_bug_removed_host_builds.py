"""A host whose service was removed counts as fenced, but it could go on with a build if its compute reported still."""

import pytest
from sqlalchemy import delete

from minova import errors
from minova.db.models import Service
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness


def remove(harness: ConductorHarness, host: str) -> None:
    """As in a database that went back to before the host has joined: no operator may remove a host that builds."""
    harness.db.run(lambda session: session.execute(delete(Service).where(Service.host == host)))


def test_bug_it_claimed_a_server(harness: ConductorHarness) -> None:
    (uuid,) = harness.create()
    remove(harness, "a")
    with pytest.raises(errors.StaleAttempt):
        harness.claim("a", uuid)


def test_bug_it_went_on_with_its_build(harness: ConductorHarness) -> None:
    (uuid,) = harness.create()
    harness.claim("a", uuid)
    remove(harness, "a")
    with pytest.raises(errors.StaleAttempt):
        harness.conductor.begin_attempt(CTX, instance_uuid=uuid, attempt=1, host="a", step="spawning")
