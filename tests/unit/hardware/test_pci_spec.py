import json
from typing import Any

import pytest

from minova import errors
from minova.hardware.pci_spec import assignable, parse_specs, unmatched
from minova.objects.hosts.pci import PciDevice

NIC = PciDevice(address="0000:0a:00.1", vendor_id="8086", product_id="1572", dev_type="type-PF")
VF = PciDevice(address="0000:0a:02.3", vendor_id="8086", product_id="154c", dev_type="type-VF", parent_addr=NIC.address)
GPU = PciDevice(address="0000:3b:00.0", vendor_id="10de", product_id="1eb8", numa_node=1)
HOST: list[tuple[PciDevice, str | None]] = [(NIC, "ens1f1"), (VF, None), (GPU, None)]


def chosen(*entries: Any) -> list[str]:
    return [device.address for device in assignable(parse_specs([json.dumps(entry) for entry in entries]), HOST)]


@pytest.mark.parametrize(
    ("entry", "addresses"),
    [
        ({}, [NIC.address, VF.address, GPU.address]),
        ({"vendor_id": "8086"}, [NIC.address, VF.address]),
        ({"vendor_id": "8086", "product_id": "154c"}, [VF.address]),
        ({"vendor_id": "8086", "product_id": "154C"}, [VF.address]),
        ({"vendor_id": "*", "product_id": "1eb8"}, [GPU.address]),
        ({"vendor_id": "15b3"}, []),
        ({"address": "*:0a:00.*"}, [NIC.address]),
        ({"address": "0a:*.*"}, [NIC.address, VF.address]),
        ({"address": "0a:02.3"}, [VF.address]),
        ({"address": "3b:00"}, [GPU.address]),
        ({"address": "00."}, [NIC.address, GPU.address]),
        ({"address": ".1"}, [NIC.address]),
        ({"address": "1:0a:00.1"}, []),
        # The one address of a PF means its VFs too; a glob does not.
        ({"address": "0000:0a:00.1"}, [NIC.address, VF.address]),
        ({"address": "0000:0a:00.1", "product_id": "154c"}, [VF.address]),
        ({"address": {"bus": "0a|3b", "slot": "00"}}, [NIC.address, GPU.address]),
        ({"address": {"function": "[0-2]"}}, [NIC.address, GPU.address]),
        ({"address": {"domain": "0001"}}, []),
        ({"devname": "ens1f1"}, [NIC.address]),
        ({"devname": "eth0"}, []),
        ([{"product_id": "1eb8"}, {"product_id": "154c"}], [VF.address, GPU.address]),
    ],
)
def test_an_entry_chooses_devices(entry: Any, addresses: list[str]) -> None:
    assert chosen(entry) == addresses


def test_what_else_stands_in_an_entry_are_tags_and_the_first_that_matches_gives_them() -> None:
    specs = parse_specs(
        ['{"product_id": "154c", "physical_network": "net1", "trusted": "true"}', '{"vendor_id": "8086", "rack": "r1"}']
    )
    tags_by_address = {device.address: dict(device.tags) for device in assignable(specs, HOST)}
    assert tags_by_address == {NIC.address: {"rack": "r1"}, VF.address: {"physical_network": "net1", "trusted": "true"}}


def test_a_tag_that_is_null_is_none() -> None:
    (device,) = assignable(parse_specs(['{"product_id": "1eb8", "physical_network": null, "rack": "r1"}']), HOST)
    assert device.tags == (("rack", "r1"),)


def test_an_entry_that_matches_nothing_is_told() -> None:
    assert unmatched(parse_specs(['{"vendor_id": "15b3"}', '{"vendor_id": "8086"}']), HOST) == ['{"vendor_id": "15b3"}']


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{nonsense", "is no JSON"),
        ('"8086"', "is no JSON object"),
        ('{"vendor_id": "intel"}', "vendor_id 'intel' is not four hexadecimal digits"),
        ('{"product_id": 1572}', "product_id 1572 is not four hexadecimal digits"),
        ('{"address": "0a:00.9"}', "'9' is neither \\* nor a function of 0 to 7"),
        ('{"address": "0:0:0a:00.1"}', "is not like domain:bus:slot.function"),
        ('{"address": "xx:00.1"}', "'xx' is neither"),
        ('{"address": 7}', "address 7 is neither"),
        ('{"address": {"bus": "["}}', "bus '\\[' is no regular expression"),
        ('{"address": {"buss": "0a"}}', "address has buss"),
        ('{"address": "0a:00.1", "devname": "ens1"}', "has both address and devname"),
        ('{"remote_managed": "true"}', "has remote_managed, which minova does not serve"),
        ('{"trusted": true}', "trusted True is no text"),
    ],
)
def test_a_wrong_entry_is_told_with_the_option_and_the_reason(text: str, why: str) -> None:
    with pytest.raises(errors.InvalidConfiguration, match=rf"^\[pci\] device_spec: .*{why}"):
        parse_specs([text])
