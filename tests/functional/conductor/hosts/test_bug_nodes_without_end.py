"""A stolen host makes neither nodes, cards nor traits without end: every scheduler and Placement would read them."""

import msgspec
import pytest
from sqlalchemy import select

from minova import errors
from minova.db import models
from minova.db.hosts import compute_nodes
from minova.objects.hosts.compute_node import Inventory
from minova.objects.network.physical_networks import TRAIT_PREFIX, trait_of
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, inventories_of
from tests.functional.scheduler.cloud import named


def audit(harness: ConductorHarness, host: str, name: str, uuid: str = "") -> None:
    node = msgspec.structs.replace(harness.node(host), hypervisor_hostname=name, uuid=uuid or named(name))
    harness.conductor.finish_audit(CTX, node=node, inventories=inventories_of(node))


def nodes_of(harness: ConductorHarness, host: str) -> set[str]:
    with harness.db.read() as session:
        return set(compute_nodes.names_of(session, host))


def segments(harness: ConductorHarness) -> set[str]:
    with harness.db.read() as session:
        return set(session.scalars(select(models.Trait.name).where(models.Trait.name.startswith(TRAIT_PREFIX))))


def test_bug_host_made_nodes_without_end(harness: ConductorHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute_nodes, "MAX_NODES", 3)
    for number in (2, 3):
        audit(harness, "a", f"a-{number}")
    with pytest.raises(errors.BadRequest, match="Host a has 3 nodes, and a host serves 3 at most"):
        audit(harness, "a", "a-4")
    assert nodes_of(harness, "a") == {"a-node", "a-2", "a-3"}
    audit(harness, "a", "a-2")  # those that it has go on
    audit(harness, "a", "a-new", uuid=named("a-3"))  # one may get another name
    assert nodes_of(harness, "a") == {"a-node", "a-2", "a-new"}
    audit(harness, "b", "b-2")


def test_bug_cards_that_a_host_does_not_offer_any_more_stayed(harness: ConductorHarness) -> None:
    """Only those named as libvirt names PCI devices went with the next audit, and only while their node kept its name."""

    def offered(name: str, *cards: str) -> set[str]:
        node = msgspec.structs.replace(harness.node("a"), hypervisor_hostname=name)
        several = Inventory(resource_class="VGPU", total=1, max_unit=1, children=tuple((card, 1) for card in cards))
        harness.conductor.finish_audit(CTX, node=node, inventories=(*inventories_of(node), several))
        model = models.ResourceProvider
        with harness.db.read() as session:
            return set(session.scalars(select(model.name).where(model.parent_provider_id.is_not(None))))

    assert offered("a-node", "evil-1", "pci_0000_81_00_0") == {"a-node_evil-1", "a-node_pci_0000_81_00_0"}
    assert offered("a-node", "evil_2", "_x_pci_3") == {"a-node_evil_2", "a-node__x_pci_3"}
    assert offered("a_new_node", "evil_2") == {"a_new_node_evil_2"}
    assert offered("a", "x") == {"a_x"}


def test_bug_two_inventories_of_one_class_were_taken(harness: ConductorHarness) -> None:
    node = harness.node("a")
    with pytest.raises(errors.BadRequest, match="two inventories of one resource class"):
        harness.conductor.finish_audit(CTX, node=node, inventories=inventories_of(node) * 2)


def test_bug_traits_of_networks_that_no_host_has_any_more_stayed(harness: ConductorHarness) -> None:
    harness.audit("a", bridges={"dc1": "br1", "dc2.7": "br2"})
    harness.audit("b", bridges={"dc1": "br1"})
    assert segments(harness) == {trait_of("dc1"), trait_of("dc2.7")}
    for number in range(3):
        harness.audit("a", bridges={f"made-up-{number}": "br"})
        assert segments(harness) == {trait_of("dc1"), trait_of(f"made-up-{number}")}
    harness.audit("b", bridges={"dc1": "br1"})
    harness.audit("a", bridges={"dc1": "br1"})
    assert segments(harness) == {trait_of("dc1")}
