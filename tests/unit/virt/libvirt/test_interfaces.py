"""Interfaces of guests on bridges that are configured and not there."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from minova.errors import HardwareNotOffered
from minova.objects.catalogue.flavor import Flavor
from minova.objects.network.vif import Vif
from minova.objects.servers.instance import Instance
from minova.virt.libvirt.driver import LibvirtDriver
from minova.virt.libvirt.networking.bridges import Bridges
from minova.virt.libvirt.xml.host_settings import HostSettings
from tests.cluster import configure

FLAVOR = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=256, root_gb=1)
VIF = Vif(port_id="p", mac_address="fa:16:3e:00:00:01", network_id="n", network_type="flat", physical_network="dc1")


class Domain:
    """A guest that is off. libvirt takes any bridge into its definition."""

    def __init__(self) -> None:
        self.defined: list[str] = []

    def state(self) -> tuple[int, int]:
        return 5, 0

    def connect(self) -> "Domain":
        return self

    def isActive(self) -> bool:  # noqa: N802
        return False

    def UUIDString(self) -> str:  # noqa: N802
        return "0b8a5c5e-58a3-4a52-9e56-3a9a4f0f2f11"

    def XMLDesc(self, flags: int = 0) -> str:  # noqa: N802
        return f"<domain><devices>{''.join(self.defined)}</devices></domain>"

    def attachDeviceFlags(self, xml: str, flags: int) -> None:  # noqa: N802
        self.defined.append(xml)

    def nwfilterDefineXML(self, xml: str) -> None:  # noqa: N802
        """Any."""

    def networkLookupByName(self, name: str) -> Any:  # noqa: N802
        raise AssertionError("it is on no local network")

    def listAllNWFilters(self) -> list[Any]:  # noqa: N802
        return []


@pytest.mark.parametrize("is_there", [True, False])
def test_a_guest_that_is_off_gets_no_interface_on_a_bridge_that_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """Its next start would fail."""
    driver, domain = LibvirtDriver(configure(tmp_path, host="h")), Domain()

    @contextmanager
    def connection(operation: str, name: str | None = None) -> Iterator[Any]:
        yield domain

    settings = HostSettings(host="h", arch="x86_64", virt_type="qemu", bridges={"dc1": "br0"})
    for name, value in {
        "_settings": settings,
        "_real": True,
        "_bridges": Bridges({"dc1": "br0"}, lambda _: is_there),
    }.items():
        monkeypatch.setattr(driver, name, value)
    monkeypatch.setattr(driver._host, "connection", connection)
    monkeypatch.setattr(driver, "_own", lambda connection, uuid: domain)
    monkeypatch.setattr(driver._filters, "define", lambda connection, vifs: None)
    instance = Instance(uuid=Domain().UUIDString(), display_name="one", flavor=FLAVOR)
    if is_there:
        driver.attach_interface(instance, VIF)
        assert len(domain.defined) == 1
    else:
        with pytest.raises(HardwareNotOffered, match="br0"):
            driver.attach_interface(instance, VIF)
        assert domain.defined == []


@pytest.mark.parametrize("part", ["serve", "repair"])
def test_bug_a_network_that_fails_stops_the_filters_of_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """The groups of one tenant waited for the network of another."""
    driver = LibvirtDriver(configure(tmp_path, host="h"))
    refreshed: list[Any] = []

    @contextmanager
    def connection(operation: str, name: str | None = None) -> Iterator[Any]:
        yield Domain()

    def refresh(connection: Any, vifs: Any, is_own: Any) -> dict[str, Any]:
        refreshed.append(vifs)
        return {}

    def fail(*_: Any) -> None:
        raise ValueError("of a defect")

    monkeypatch.setattr(driver, "_real", True)
    monkeypatch.setattr(driver._host, "connection", connection)
    for name in ("serve", "repair"):
        monkeypatch.setattr(driver._networks, name, fail if name == part else lambda *_: None)
    monkeypatch.setattr(driver._filters, "refresh", refresh)
    with pytest.raises(ValueError, match="of a defect"):
        driver.refresh_interfaces({})
    assert refreshed == [{}]
