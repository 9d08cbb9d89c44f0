"""Domains of instances whose rows were purged ran for ever: no row knew them, so no audit asked for them."""

from sqlalchemy import delete, select

from minova.db import models
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness

YEAR = 366 * 86400.0


def purged(harness: ConductorHarness) -> str:
    """An instance that was deleted while its host was away, long ago."""
    uuid = harness.active()
    harness.delete(uuid)
    harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    harness.tick(harness.conductor, 31 * 86400.0)
    with harness.db.read() as session:
        assert session.scalars(select(models.Instance)).all() == []
    return uuid


def test_an_audit_says_that_the_instance_of_a_domain_was_purged(harness: ConductorHarness) -> None:
    uuid = purged(harness)
    inputs = harness.conductor.begin_audit(CTX, host="a", view=harness.view("a", uuid))
    assert (inputs.purged, inputs.unexpected_domains, inputs.conflicts) == ((uuid,), (), ())


def test_a_domain_of_which_there_is_no_proof_is_only_told_of(harness: ConductorHarness) -> None:
    """As with an empty database, a wrong one, or one restored from an old backup: all that the host has is unknown."""
    uuid = purged(harness)
    with harness.db.write() as session:
        session.execute(delete(models.PurgedInstance))
    inputs = harness.conductor.begin_audit(CTX, host="a", view=harness.view("a", uuid))
    assert (inputs.purged, inputs.unexpected_domains) == ((), ())
    assert inputs.conflicts == (
        f"the domain of instance {uuid} bears the mark of this host, and the database has no record of it: it is left as it is",
    )


def test_the_proof_is_kept_for_a_year(harness: ConductorHarness) -> None:
    purged(harness)
    harness.tick(harness.conductor, 300 * 86400.0)
    assert harness.count(models.PurgedInstance) == 1
    harness.tick(harness.conductor, 70 * 86400.0)
    assert harness.count(models.PurgedInstance) == 0


def test_an_instance_that_no_host_has_tried_needs_no_proof(harness: ConductorHarness) -> None:
    harness.scheduler.order = []
    (uuid,) = harness.create()
    harness.delete(uuid)
    harness.tick(harness.conductor, 31 * 86400.0)
    assert harness.count(models.Instance) == 0
    assert harness.count(models.PurgedInstance) == 0
