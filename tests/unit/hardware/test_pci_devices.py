from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minova.hardware import pci_devices
from minova.hardware.errors import PciDeviceRequestFailed
from minova.hardware.pci_devices import allocated, claimed, freed, kept_for, owned_by, pools_of, reconciled
from minova.objects.hosts.pci import InstancePCIRequest, PciDevice

PF = PciDevice(address="0000:0a:00.0", vendor_id="8086", product_id="1572", dev_type="type-PF", numa_node=0)
VFS = tuple(
    PciDevice(
        address=f"0000:0a:02.{n}",
        vendor_id="8086",
        product_id="154c",
        dev_type="type-VF",
        numa_node=0,
        parent_addr=PF.address,
    )
    for n in range(3)
)
GPU = PciDevice(address="0000:3b:00.0", vendor_id="10de", product_id="1eb8", numa_node=1, tags=(("gpu", "t4"),))
HOST = reconciled((), (GPU, *VFS, PF))


def statuses(devices: Sequence[PciDevice]) -> dict[str, str]:
    return {device.address[-7:]: device.status for device in devices}


def test_new_devices_are_available_and_pooled_by_likeness() -> None:
    assert set(statuses(HOST).values()) == {"available"}
    assert [(pool.product_id, pool.dev_type, pool.numa_node, pool.count) for pool in pools_of(HOST)] == [
        ("1572", "type-PF", 0, 1),
        ("154c", "type-VF", 0, 3),
        ("1eb8", "type-PCI", 1, 1),
    ]
    assert pools_of(HOST)[2].tags == (("gpu", "t4"),)


def test_a_taken_vf_takes_its_pf_and_a_taken_pf_its_vfs() -> None:
    some = claimed(HOST, "i1", {VFS[1].address: "r1"})
    assert statuses(some) == {
        "0a:00.0": "unclaimable",
        "0a:02.0": "available",
        "0a:02.1": "claimed",
        "0a:02.2": "available",
        "3b:00.0": "available",
    }
    assert [(pool.product_id, pool.count) for pool in pools_of(some)] == [("154c", 2), ("1eb8", 1)]
    assert statuses(allocated(some, "i1"))["0a:00.0"] == "unavailable"
    whole = claimed(HOST, "i1", {PF.address: None})
    assert [statuses(whole)[f"0a:02.{n}"] for n in range(3)] == ["unclaimable"] * 3
    assert [pool.product_id for pool in pools_of(whole)] == ["1eb8"]
    with pytest.raises(ValueError, match=r"PCI device 0000:0a:02.0 is unclaimable"):
        claimed(whole, "i2", {VFS[0].address: None})


@pytest.mark.parametrize("address", ["0000:0a:02.1", "0000:ff:00.0"])
def test_no_device_is_given_twice_nor_one_that_is_not_there(address: str) -> None:
    with pytest.raises(ValueError, match=address):
        claimed(claimed(HOST, "i1", {VFS[1].address: None}), "i2", {address: None})


def test_a_device_that_leaves_the_host_while_in_use_is_removed_until_it_is_freed() -> None:
    used = allocated(claimed(HOST, "i1", {GPU.address: "r1"}), "i1")
    gone = reconciled(used, (PF, *VFS))
    assert statuses(gone)["3b:00.0"] == "removed"
    assert owned_by(gone, "i1")[0].request_id == "r1"
    assert statuses(reconciled(gone, HOST))["3b:00.0"] == "allocated"
    assert "3b:00.0" not in statuses(freed(gone, "i1"))


def test_what_is_free_follows_the_host_and_what_is_used_stays_as_it_was_taken() -> None:
    used = claimed(HOST, "i1", {GPU.address: None})
    moved = [msgspec.structs.replace(device, numa_node=7) for device in (PF, GPU)]
    cells_by_address = {device.address: device.numa_node for device in reconciled(used, moved)}
    assert cells_by_address == {PF.address: 7, GPU.address: 1}


def test_instances_that_are_gone_hold_nothing() -> None:
    two = claimed(claimed(HOST, "i1", {GPU.address: None}), "i2", {VFS[0].address: None})
    left = kept_for(two, ["i2"])
    assert [device.address for device in left if device.instance_uuid] == [VFS[0].address]
    assert kept_for(two, []) == HOST


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["claim", "allocate", "free", "lose", "find"]),
        st.sampled_from("abc"),
        st.sampled_from([device.address for device in HOST]),
    ),
    max_size=30,
)


@given(ACTS)
def test_whatever_happens_each_device_has_one_owner_and_blocks_its_relatives(
    acts: list[tuple[str, str, str]],
) -> None:
    devices, present = HOST, set(statuses_by_address(HOST))
    for act, who, address in acts:
        if act == "claim":
            try:
                devices = claimed(devices, who, {address: None})
            except ValueError:
                continue
        elif act in {"lose", "find"}:
            present = present - {address} if act == "lose" else present | {address}
            devices = reconciled(devices, [device for device in HOST if device.address in present])
        else:
            devices = allocated(devices, who) if act == "allocate" else freed(devices, who)
        assert len({device.address for device in devices}) == len(devices)
        of = {device.address: device for device in devices}
        for vf in VFS:
            pair = [of[pci_address].instance_uuid for pci_address in (vf.address, PF.address) if pci_address in of]
            assert pair.count(None) >= len(pair) - 1
        for device in devices:
            assert (device.instance_uuid is None) == (device.status in {"available", "unclaimable", "unavailable"})
    for who in "abc":
        devices = freed(devices, who)
    assert reconciled(devices, HOST) == HOST
    assert pci_devices.settled(devices) == devices


def statuses_by_address(devices: Sequence[PciDevice]) -> list[str]:
    return [device.address for device in devices]


def request_for(count: int, product_id: str, request_id: str) -> InstancePCIRequest:
    return InstancePCIRequest(count=count, spec=((("product_id", product_id),),), request_id=request_id)


def test_each_request_gets_devices_of_its_kind_that_no_other_has() -> None:
    devices = [
        PciDevice(address=f"0000:0{number}:00.0", vendor_id="8086", product_id=product, status="available")
        for number, product in enumerate(["0443", "0442", "0443", "0442", "0443"])
    ]
    requests = [request_for(2, "0443", "first"), request_for(1, "0442", "second"), request_for(1, "0443", "third")]
    assert pci_devices.chosen(devices, requests) == {
        "0000:00:00.0": "first",
        "0000:02:00.0": "first",
        "0000:01:00.0": "second",
        "0000:04:00.0": "third",
    }
    with pytest.raises(PciDeviceRequestFailed):
        pci_devices.chosen(devices, [*requests, request_for(1, "0443", "fourth")])
