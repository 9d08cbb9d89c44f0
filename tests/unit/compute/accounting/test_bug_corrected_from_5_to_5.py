"""*corrected row's local_gb_used from 5 to 5*: a row that agrees with the audit is no correction."""

import msgspec

from minova.compute.accounting.drift import edited
from minova.objects.hosts.compute_node import ComputeNode
from tests.fakes.computes import NODE, Compute


def audited() -> ComputeNode:
    compute = Compute().start()
    return next(node for (_, name), node in compute.conductor.nodes.items() if name == NODE)


def test_row_that_another_has_changed_to_what_the_audit_finds_is_not_corrected() -> None:
    audited_node = msgspec.structs.replace(audited(), local_gb_used=5)
    written = msgspec.structs.replace(audited_node, local_gb_used=4)
    assert edited(written, audited_node, audited_node) == ()
    (drift,) = edited(written, msgspec.structs.replace(audited_node, local_gb_used=7), audited_node)
    assert str(drift) == "row's local_gb_used from 7 to 5"
