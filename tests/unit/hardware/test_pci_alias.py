"""[pci] alias, and the flavors that use it."""

import json
from typing import Any

import pytest

from minova.hardware.errors import (
    ImagePCINUMAPolicyForbidden,
    Invalid,
    InvalidPCINUMAAffinity,
    PciInvalidAlias,
    nova_name,
)
from minova.hardware.pci_alias import Alias, numa_policy_of, parse_aliases, requests_of
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image_properties import InvalidImageProperty
from minova.objects.hosts.pci import InstancePCIRequest

USUAL = {"name": "qat", "vendor_id": "8086", "product_id": "0443"}
PAIRS = (("product_id", "0443"), ("vendor_id", "8086"))


def text(**changes: Any) -> str:
    return json.dumps({key: value for key, value in (USUAL | changes).items() if value is not None})


def flavor(**extra_specs: str) -> Flavor:
    names = {"alias": "pci_passthrough:alias", "policy": "hw:pci_numa_affinity_policy"}
    specs = {names[key]: value for key, value in extra_specs.items()}
    return Flavor(flavorid="1", name="f", vcpus=1, memory_mb=1, root_gb=1, extra_specs=specs)


# (what, changes of the usual text, what comes of it)
RIGHT: list[tuple[str, dict[str, Any], Alias]] = [
    ("plain", {}, Alias(specs=(PAIRS,))),
    ("with blanks around its name", {"name": " qat "}, Alias(specs=(PAIRS,))),
    ("a policy", {"numa_policy": "socket"}, Alias(numa_policy="socket", specs=(PAIRS,))),
    ("a kind", {"device_type": "type-VF"}, Alias(specs=((("dev_type", "type-VF"), *PAIRS),))),
    ("live migration", {"live_migratable": "Yes"}, Alias(specs=((("live_migratable", "true"), *PAIRS),))),
    ("no live migration", {"live_migratable": "off"}, Alias(specs=((("live_migratable", "false"), *PAIRS),))),
    (
        "a resource class",
        {"resource_class": "CUSTOM_QAT"},
        Alias(specs=((*PAIRS[:1], ("resource_class", "CUSTOM_QAT"), *PAIRS[1:]),)),
    ),
]


@pytest.mark.parametrize(("changes", "alias"), [case[1:] for case in RIGHT], ids=[case[0] for case in RIGHT])
def test_alias(changes: dict[str, Any], alias: Alias) -> None:
    assert parse_aliases([text(**changes)]) == {"qat": alias}


WRONG: list[tuple[str, list[str], str]] = [
    ("no JSON", ["{"], "is no JSON"),
    ("no object", ["[]"], "is no JSON object"),
    ("no name", [text(name=None)], "has no name"),
    ("an empty name", [text(name="")], "has no name"),
    ("a long name", [text(name="x" * 257)], "more than 256"),
    ("an unknown key", [text(colour="red")], "unknown key colour"),
    ("no text", [text(vendor_id=8086)], "vendor_id=8086 is no text"),
    ("no id", [text(vendor_id="086")], "vendor_id=086 is not of four hexadecimal digits"),
    ("an unknown policy", [text(numa_policy="near")], "numa_policy=near is not one of required, legacy"),
    ("VDPA", [text(device_type="vdpa")], "device_type=vdpa is not one of type-PCI"),
    ("no truth", [text(live_migratable="perhaps")], "live_migratable=perhaps is neither true nor false"),
    ("no product", [text(product_id=None)], "alias qat has no vendor_id and product_id"),
    (
        "two policies",
        [text(device_type="type-VF"), text(device_type="type-VF", numa_policy="socket")],
        "numa_policy=socket, but",
    ),
    ("two kinds", [text(device_type="type-VF"), text(device_type="type-PF")], "device_type=type-PF, but"),
    ("two without a kind", [text(), text()], "both must have the same"),
]


@pytest.mark.parametrize(("texts", "reason"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_a_malformed_alias_names_what_is_wrong(texts: list[str], reason: str) -> None:
    with pytest.raises(PciInvalidAlias) as caught:
        parse_aliases(texts)
    assert reason in str(caught.value)
    assert "[pci] alias" in str(caught.value)


def test_texts_of_one_name_add_up() -> None:
    aliases = parse_aliases([text(device_type="type-PCI"), text(device_type="type-PCI", product_id="0442")])
    assert [dict(spec)["product_id"] for spec in aliases["qat"].specs] == ["0443", "0442"]


def test_with_devices_in_placement_an_alias_has_one_text_and_may_name_a_class() -> None:
    by_class = text(vendor_id=None, product_id=None, resource_class="CUSTOM_QAT")
    assert "qat" in parse_aliases([by_class], pci_in_placement=True)
    with pytest.raises(PciInvalidAlias, match="no vendor_id"):
        parse_aliases([by_class])
    with pytest.raises(PciInvalidAlias, match="more than once"):
        parse_aliases([text(device_type="type-VF")] * 2, pci_in_placement=True)


ALIASES = parse_aliases([text(), text(name="nic", numa_policy="required")])


def test_what_a_flavor_asks_for() -> None:
    qat = InstancePCIRequest(count=2, spec=(PAIRS,), numa_policy="legacy", alias_name="qat")
    nic = InstancePCIRequest(count=1, spec=(PAIRS,), numa_policy="required", alias_name="nic")
    assert requests_of(flavor(), ALIASES) == ()
    assert requests_of(flavor(alias="qat:2"), ALIASES) == (qat,)
    assert requests_of(flavor(alias="qat:2, nic:1"), ALIASES) == (qat, nic)
    assert [request.numa_policy for request in requests_of(flavor(alias="qat:2,nic:1"), ALIASES, "socket")] == [
        "socket"
    ] * 2


@pytest.mark.parametrize(
    ("alias", "kind"),
    [
        ("ghost:1", "PciRequestAliasNotDefined"),
        ("qat:1,ghost:1", "PciRequestAliasNotDefined"),
        ("qat", "ValueError"),
        ("qat:1,", "ValueError"),
        ("qat:1:2", "ValueError"),
        ("qat:many", "ValueError"),
        ("qat:-1", "ValueError"),
        ("", "ValueError"),
    ],
)
def test_what_a_flavor_may_not_ask_for(alias: str, kind: str) -> None:
    with pytest.raises(Invalid, match="pci_passthrough:alias=") as caught:
        requests_of(flavor(alias=alias), ALIASES)
    assert nova_name(caught.value) == kind


def test_the_policy_of_flavor_and_image() -> None:
    image = {"hw_pci_numa_affinity_policy": "preferred"}
    assert numa_policy_of(flavor(), {}) is None
    assert numa_policy_of(flavor(policy="required"), {}) == "required"
    assert numa_policy_of(flavor(), image) == "preferred"
    assert numa_policy_of(flavor(policy="preferred"), image) == "preferred"
    with pytest.raises(ImagePCINUMAPolicyForbidden, match="hw_pci_numa_affinity_policy=preferred of the image"):
        numa_policy_of(flavor(policy="required"), image)
    with pytest.raises(InvalidPCINUMAAffinity, match="hw:pci_numa_affinity_policy=near"):
        numa_policy_of(flavor(policy="near"), {})
    with pytest.raises(InvalidImageProperty, match="near"):
        numa_policy_of(flavor(), {"hw_pci_numa_affinity_policy": "near"})
