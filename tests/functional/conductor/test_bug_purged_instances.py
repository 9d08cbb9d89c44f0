"""Domains of instances whose rows were purged ran for ever: no row knew them, so no audit asked for them."""

from sqlalchemy import delete, select

from minova.db import models
from tests.functional.conductor.desk import CTX, Desk

YEAR = 366 * 86400.0


def purged(desk: Desk) -> str:
    """An instance that was deleted while its host was away, long ago."""
    uuid = desk.active()
    desk.delete(uuid)
    desk.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    desk.tick(desk.conductor, 31 * 86400.0)
    with desk.db.read() as session:
        assert session.scalars(select(models.Instance)).all() == []
    return uuid


def test_an_audit_says_that_the_instance_of_a_domain_was_purged(desk: Desk) -> None:
    uuid = purged(desk)
    inputs = desk.conductor.begin_audit(CTX, host="a", view=desk.view("a", uuid))
    assert (inputs.purged, inputs.unexpected_domains, inputs.conflicts) == ((uuid,), (), ())


def test_a_domain_of_which_there_is_no_proof_is_only_told_of(desk: Desk) -> None:
    """As with an empty database, a wrong one, or one restored from an old backup: all that the host has is unknown."""
    uuid = purged(desk)
    with desk.db.write() as session:
        session.execute(delete(models.PurgedInstance))
    inputs = desk.conductor.begin_audit(CTX, host="a", view=desk.view("a", uuid))
    assert (inputs.purged, inputs.unexpected_domains) == ((), ())
    assert inputs.conflicts == (
        f"the domain of instance {uuid} bears the mark of this host, and the database has never heard of it: it is left as it is",
    )


def test_the_proof_is_kept_for_a_year(desk: Desk) -> None:
    purged(desk)
    desk.tick(desk.conductor, 300 * 86400.0)
    assert desk.count(models.PurgedInstance) == 1
    desk.tick(desk.conductor, 70 * 86400.0)
    assert desk.count(models.PurgedInstance) == 0


def test_an_instance_that_no_host_has_tried_needs_no_proof(desk: Desk) -> None:
    desk.scheduler.order = []
    (uuid,) = desk.create()
    desk.delete(uuid)
    desk.tick(desk.conductor, 31 * 86400.0)
    assert desk.count(models.Instance) == 0
    assert desk.count(models.PurgedInstance) == 0
