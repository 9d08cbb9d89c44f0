"""A write of a node that comes after a newer one must not undo it."""

import msgspec
import pytest

from minova import errors
from minova.objects.compute_node import ComputeNode
from tests.functional.conductor.desk import CTX, Desk, inventories_of

replace = msgspec.structs.replace


def numbered(desk: Desk, number: int, *, epoch: int = 1, acknowledged: int | None = None, **usage: int) -> ComputeNode:
    return replace(
        desk.node("a", **usage),
        id=desk.row("a").id,
        writer_epoch=epoch,
        write_number=number,
        acknowledged=number - 1 if acknowledged is None else acknowledged,
    )


def test_late_save_is_ignored(desk: Desk) -> None:
    late, newer = numbered(desk, 1, vcpus_used=1), numbered(desk, 2, vcpus_used=2)
    desk.conductor.save_compute_node(CTX, node=newer)
    generation = desk.row("a").generation
    answered = desk.conductor.save_compute_node(CTX, node=late)
    assert (desk.row("a").vcpus_used, desk.row("a").generation, answered.vcpus_used) == (2, generation, 2)


def test_late_audit_is_ignored_with_its_inventories(desk: Desk) -> None:
    late = numbered(desk, 1, memory_mb=1024)
    desk.conductor.save_compute_node(CTX, node=numbered(desk, 2, vcpus_used=2))
    desk.conductor.finish_audit(CTX, node=late, inventories=inventories_of(late))
    assert (desk.row("a").memory_mb, desk.row("a").vcpus_used) == (4096, 2)


def test_late_claim_writes_no_usage(desk: Desk) -> None:
    (uuid,) = desk.create()
    desk.conductor.save_compute_node(CTX, node=numbered(desk, 5, vcpus_used=3))
    claim = numbered(desk, 4, vcpus_used=1)
    desk.conductor.claim_instance(CTX, instance_uuid=uuid, attempt=1, node=claim)
    assert (desk.row("a").vcpus_used, desk.instance(uuid).host) == (3, "a")


def test_late_save_is_ignored_after_an_audit_that_found_nothing_changed(desk: Desk) -> None:
    desk.conductor.save_compute_node(CTX, node=numbered(desk, 1, vcpus_used=0))
    # Number 2 was sent and not answered; the audit found the node as number 1 had left it.
    audit = numbered(desk, 3, acknowledged=1)
    desk.conductor.finish_audit(CTX, node=audit, inventories=inventories_of(audit))
    desk.conductor.save_compute_node(CTX, node=numbered(desk, 2, vcpus_used=4))
    assert desk.row("a").vcpus_used == 0


def test_repeated_write_is_written_again(desk: Desk) -> None:
    node = numbered(desk, 7, vcpus_used=2)
    desk.conductor.save_compute_node(CTX, node=node)
    assert desk.conductor.save_compute_node(CTX, node=node).vcpus_used == 2


def test_process_that_was_replaced_is_refused(desk: Desk) -> None:
    (uuid,) = desk.create()
    desk.conductor.save_compute_node(CTX, node=numbered(desk, 1, epoch=2, vcpus_used=2))
    old = numbered(desk, 99, epoch=1, vcpus_used=4)
    for write in (
        lambda: desk.conductor.save_compute_node(CTX, node=old),
        lambda: desk.conductor.finish_audit(CTX, node=old, inventories=inventories_of(old)),
        lambda: desk.conductor.claim_instance(CTX, instance_uuid=uuid, attempt=1, node=old),
    ):
        with pytest.raises(errors.Superseded):
            write()
    assert (desk.row("a").vcpus_used, desk.instance(uuid).host) == (2, None)


def test_older_release_writes_as_before(desk: Desk) -> None:
    desk.conductor.save_compute_node(CTX, node=numbered(desk, 1, vcpus_used=2))
    desk.conductor.save_compute_node(CTX, node=desk.node("a", vcpus_used=1))
    assert desk.row("a").vcpus_used == 1


def test_unchanged_audit_writes_nothing(desk: Desk) -> None:
    desk.conductor.finish_audit(CTX, node=numbered(desk, 1), inventories=inventories_of(desk.node("a")))
    before = desk.row("a")
    desk.conductor.finish_audit(CTX, node=numbered(desk, 2), inventories=inventories_of(desk.node("a")))
    assert (desk.row("a").write_number, desk.row("a").generation) == (before.write_number, before.generation)
