"""Which devices meet a request, and what is left."""

from typing import Any

import pytest

from minova.hardware.errors import PciDeviceRequestFailed
from minova.hardware.pci_pools import GuestCells, cells_of, consumed, shortage
from minova.objects.hosts.pci import InstancePCIRequest, PciDevicePool
from tests.unit.hardware.guests import cell, guest, host, pci_request, pool, shared


def tagged(**tags: str) -> PciDevicePool:
    return pool(tags=tuple(tags.items()))


# (what, pools, request, what is short or None)
CASES: list[tuple[str, list[PciDevicePool], InstancePCIRequest, str | None]] = [
    ("enough", [pool(2)], pci_request(2), None),
    ("too few", [pool(2)], pci_request(3), "with these properties 2 < requested 3"),
    ("of two pools together", [pool(1), pool(1, product="154c")], pci_request(2), None),
    ("another vendor", [pool()], pci_request(vendor_id="10de"), "with these properties 0 < requested 1"),
    ("another product", [pool()], pci_request(product_id="154c"), "{'product_id': '154c'} with these properties 0"),
    (
        "in another case",
        [PciDevicePool(vendor_id="15B3", product_id="1", count=1)],
        pci_request(vendor_id="15b3"),
        None,
    ),
    ("a tag", [tagged(physical_network="Phys1")], pci_request(physical_network="phys1"), None),
    (
        "another tag",
        [tagged(physical_network="phys2")],
        pci_request(physical_network="phys1"),
        "with these properties 0",
    ),
    ("a tag that the pool has not", [pool()], pci_request(trusted="true"), "with these properties 0"),
    (
        "what is Placement's matter",
        [pool()],
        pci_request(vendor_id="8086", resource_class="CUSTOM_NIC", traits="A"),
        None,
    ),
    ("a PF by its type", [pool(dev_type="type-PF")], pci_request(dev_type="type-PF"), None),
    ("a PF that was not asked for", [pool(dev_type="type-PF")], pci_request(), "that are no whole PF 0 < requested 1"),
    ("VDPA by its type", [pool(dev_type="vdpa")], pci_request(dev_type="vdpa"), None),
    ("VDPA that was not asked for", [pool(dev_type="vdpa")], pci_request(), "that are no VDPA 0 < requested 1"),
    ("remote managed", [tagged(remote_managed="true")], pci_request(remote_managed="true"), None),
    ("remote managed, not asked for", [tagged(remote_managed="True")], pci_request(), "that are not remote managed 0"),
    ("not remote managed", [tagged(remote_managed="false")], pci_request(), None),
    ("migrates live", [tagged(live_migratable="true")], pci_request(live_migratable="true"), None),
    (
        "does not migrate live",
        [tagged(live_migratable="false")],
        pci_request(live_migratable="true"),
        "with these properties",
    ),
    ("says nothing of live migration", [pool()], pci_request(live_migratable="false"), "with these properties"),
    ("whatever it says of live migration", [tagged(live_migratable="true")], pci_request(), None),
    ("none of them, where none is like it", [], pci_request(0), "none match"),
    ("none of them, where one is", [pool()], pci_request(0), None),
]


@pytest.mark.parametrize(("pools", "request_", "short"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_properties(pools: list[PciDevicePool], request_: InstancePCIRequest, short: str | None) -> None:
    reason = shortage(pools, [request_])
    if short is None:
        assert reason is None
    else:
        assert reason is not None
        assert short in reason


def test_any_of_several_specs_will_do() -> None:
    either = InstancePCIRequest(count=2, spec=((("product_id", "1572"),), (("product_id", "154c"),)))
    assert shortage([pool(), pool(product="154c")], [either]) is None
    missing = shortage([pool(), pool(product="9999")], [either])
    assert missing is not None
    assert missing.startswith("PCI devices {'product_id': '1572'} with")


SOCKETS = ((0, 0), (1, 0), (2, 1))
# policy -> of devices on no node, on the guest's cell 0, beside it on the same socket (1), on the other (2): which do
NEAR = {
    "required": [0],
    "legacy": [None, 0],
    None: [None, 0],
    "preferred": [None, 0, 1, 2],
    "socket": [0, 1],
}


@pytest.mark.parametrize(("policy", "nodes"), NEAR.items())
def test_how_near_a_device_must_be(policy: str | None, nodes: list[Any]) -> None:
    on_cell_0 = GuestCells(ids=frozenset({0}), sockets=SOCKETS)
    for node in (None, 0, 1, 2):
        reason = shortage([pool(node=node)], [pci_request(1, policy)], on_cell_0)
        assert (reason is None) is (node in nodes), (policy, node)
        assert shortage([pool(node=node)], [pci_request(1, policy)]) is None  # a guest without cells is near everything


def test_without_sockets_told_only_the_guests_own_cells_are_on_its_socket() -> None:
    unknown = GuestCells(ids=frozenset({0}), sockets=((0, 0), (1, None)))
    assert shortage([pool(node=1)], [pci_request(1, "socket")], unknown) is not None
    assert shortage([pool(node=0)], [pci_request(1, "socket")], unknown) is None


def test_a_near_whole_pf_hides_what_is_farther_as_in_nova() -> None:
    """Nearness is looked at before the kind of device."""
    pools = [pool(1, node=0, dev_type="type-PF"), pool(1)]
    reason = shortage(pools, [pci_request(1, "legacy")], GuestCells(ids=frozenset({0})))
    assert reason is not None
    assert "no whole PF" in reason


def test_requests_are_met_from_what_those_before_them_left() -> None:
    pools = [pool(2), pool(1, product="154c", dev_type="type-VF")]
    assert shortage(pools, [pci_request(1), pci_request(1, product_id="1572"), pci_request(1)]) is None
    assert shortage(pools, [pci_request(2), pci_request(2)]) is not None


def test_consumption_begins_with_the_pools_of_fewest_tags_and_drops_what_is_used_up() -> None:
    plain, special = pool(1), pool(2, tags=(("trusted", "true"),))
    assert consumed([special, plain], [pci_request(1)]) == (special,)
    assert consumed([special, plain], [pci_request(2)]) == (pool(1, tags=(("trusted", "true"),)),)
    assert consumed([special, plain], [pci_request(3)]) == ()


def test_consumption_prefers_what_is_near() -> None:
    far, near = pool(1, node=1), pool(1, node=0)
    on_cell_0 = cells_of(host(cell(0), cell(1)), guest(shared()))
    assert consumed([far, near], [pci_request(1, "preferred")], on_cell_0) == (far,)
    assert consumed([far, near], [pci_request(2, "preferred")], on_cell_0) == ()


def test_devices_beside_the_guest_are_used_up_before_far_ones() -> None:
    far, near = pool(2, node=1), pool(1, node=0)
    on_cell_0 = cells_of(host(cell(0), cell(1)), guest(shared()))
    assert consumed([far, near], [pci_request(2, "preferred")], on_cell_0) == (pool(1, node=1),)


def test_what_is_not_there_is_not_consumed() -> None:
    with pytest.raises(PciDeviceRequestFailed, match="1 < requested 2"):
        consumed([pool(1)], [pci_request(2)])


def test_guests_without_cells_are_anywhere() -> None:
    assert cells_of(None, guest(shared())) is None
    assert cells_of(host(cell()), None) is None
