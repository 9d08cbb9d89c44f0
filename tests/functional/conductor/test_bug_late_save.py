"""A write of a node that comes after a newer one must not undo it."""

import msgspec
import pytest

from minova import errors
from minova.objects.hosts.compute_node import ComputeNode
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, inventories_of

replace = msgspec.structs.replace


def numbered(
    harness: ConductorHarness, number: int, *, epoch: int = 1, acknowledged: int | None = None, **usage: int
) -> ComputeNode:
    return replace(
        harness.node("a", **usage),
        id=harness.row("a").id,
        writer_epoch=epoch,
        write_number=number,
        acknowledged=number - 1 if acknowledged is None else acknowledged,
    )


def test_late_save_is_ignored(harness: ConductorHarness) -> None:
    late, newer = numbered(harness, 1, vcpus_used=1), numbered(harness, 2, vcpus_used=2)
    harness.conductor.save_compute_node(CTX, node=newer)
    generation = harness.row("a").generation
    answered = harness.conductor.save_compute_node(CTX, node=late)
    assert (harness.row("a").vcpus_used, harness.row("a").generation, answered.vcpus_used) == (2, generation, 2)


def test_late_audit_is_ignored_with_its_inventories(harness: ConductorHarness) -> None:
    late = numbered(harness, 1, memory_mb=1024)
    harness.conductor.save_compute_node(CTX, node=numbered(harness, 2, vcpus_used=2))
    harness.conductor.finish_audit(CTX, node=late, inventories=inventories_of(late))
    assert (harness.row("a").memory_mb, harness.row("a").vcpus_used) == (4096, 2)


def test_late_claim_writes_no_usage(harness: ConductorHarness) -> None:
    (uuid,) = harness.create()
    harness.conductor.save_compute_node(CTX, node=numbered(harness, 5, vcpus_used=3))
    claim = numbered(harness, 4, vcpus_used=1)
    harness.conductor.claim_instance(CTX, instance_uuid=uuid, attempt=1, node=claim)
    assert (harness.row("a").vcpus_used, harness.instance(uuid).host) == (3, "a")


def test_late_save_is_ignored_after_an_audit_that_found_nothing_changed(harness: ConductorHarness) -> None:
    harness.conductor.save_compute_node(CTX, node=numbered(harness, 1, vcpus_used=0))
    # Number 2 was sent and not answered; the audit found the node as number 1 had left it.
    audit = numbered(harness, 3, acknowledged=1)
    harness.conductor.finish_audit(CTX, node=audit, inventories=inventories_of(audit))
    harness.conductor.save_compute_node(CTX, node=numbered(harness, 2, vcpus_used=4))
    assert harness.row("a").vcpus_used == 0


def test_repeated_write_is_written_again(harness: ConductorHarness) -> None:
    node = numbered(harness, 7, vcpus_used=2)
    harness.conductor.save_compute_node(CTX, node=node)
    assert harness.conductor.save_compute_node(CTX, node=node).vcpus_used == 2


def test_process_that_was_replaced_is_refused(harness: ConductorHarness) -> None:
    (uuid,) = harness.create()
    harness.conductor.save_compute_node(CTX, node=numbered(harness, 1, epoch=2, vcpus_used=2))
    old = numbered(harness, 99, epoch=1, vcpus_used=4)
    for write in (
        lambda: harness.conductor.save_compute_node(CTX, node=old),
        lambda: harness.conductor.finish_audit(CTX, node=old, inventories=inventories_of(old)),
        lambda: harness.conductor.claim_instance(CTX, instance_uuid=uuid, attempt=1, node=old),
    ):
        with pytest.raises(errors.Superseded):
            write()
    assert (harness.row("a").vcpus_used, harness.instance(uuid).host) == (2, None)


def test_older_release_writes_as_before(harness: ConductorHarness) -> None:
    harness.conductor.save_compute_node(CTX, node=numbered(harness, 1, vcpus_used=2))
    harness.conductor.save_compute_node(CTX, node=harness.node("a", vcpus_used=1))
    assert harness.row("a").vcpus_used == 1


def test_unchanged_audit_writes_nothing(harness: ConductorHarness) -> None:
    harness.conductor.finish_audit(CTX, node=numbered(harness, 1), inventories=inventories_of(harness.node("a")))
    before = harness.row("a")
    harness.conductor.finish_audit(CTX, node=numbered(harness, 2), inventories=inventories_of(harness.node("a")))
    assert (harness.row("a").write_number, harness.row("a").generation) == (before.write_number, before.generation)
