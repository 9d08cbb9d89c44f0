"""The network that minova-standalone makes at its first start."""

import ipaddress
import logging
from pathlib import Path
from typing import Any

import pytest

from minova import conf as configuration
from minova import errors
from minova.cmd import standalone
from minova.cmd.startup import default_network
from minova.cmd.startup.default_network import DefaultNetwork
from minova.objects.network.network import Network, Subnet
from minova.virt.namespaces.host_routes import KernelRoute


class Conductor:
    """Keeps what it makes; a network or range that is there it refuses, as the real one."""

    def __init__(self) -> None:
        self.networks: dict[str, Network] = {}
        self.subnets: dict[str, Subnet] = {}

    def create_networks(self, ctx: Any, networks: tuple[Network, ...]) -> tuple[Network, ...]:
        for network in networks:
            if network.id in self.networks:
                raise errors.SegmentInUse("it is there")
            self.networks[network.id] = network
        return networks

    def create_subnets(self, ctx: Any, subnets: tuple[Subnet, ...], any_range: bool) -> tuple[Subnet, ...]:
        for subnet in subnets:
            if subnet.id in self.subnets:
                raise errors.OverlappingSubnets("it is there")
            self.subnets[subnet.id] = subnet
        return subnets


def make(tmp_path: Path, conductor: Conductor, **options: str) -> None:
    conf = configuration.load(["--state-dir", str(tmp_path)], "test", files=[], cli=standalone.CLI)
    for name, value in ({"DEFAULT.compute_driver": "fake"} | options).items():
        configuration.override(conf, name.removeprefix("DEFAULT."), value)
    DefaultNetwork(conf, conductor).make()  # type: ignore[arg-type]


def used(monkeypatch: pytest.MonkeyPatch, *ranges: str) -> None:
    routes = tuple(KernelRoute(destination=text) for text in ranges)
    monkeypatch.setattr(default_network, "ranges_in_use", lambda: routes)


def test_it_is_shared_and_has_addresses_that_the_host_does_not_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used(monkeypatch, "172.30.0.0/22", "172.30.4.9", "172.30.6.0/23", "172.30.8.0/21", "192.168.0.0/16", "10.0.0.0/8")
    conductor = Conductor()
    make(tmp_path, conductor)
    (network,), (subnet,) = conductor.networks.values(), conductor.subnets.values()
    assert (network.name, network.shared, network.network_type, network.reachable) == ("default", True, "local", True)
    assert (subnet.network_id, subnet.cidr, subnet.gateway_ip) == (network.id, "172.30.5.0/24", "172.30.5.1")
    assert subnet.enable_dhcp


def test_bug_two_minovas_of_one_machine_choose_one_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host has no route to it until there are guests, and then refused those of the second one."""
    used(monkeypatch)
    chosen = []
    for folder in ("/one", "/two", "/one"):
        conductor = Conductor()
        make(tmp_path, conductor, host="vm", state_path=folder)
        chosen += [subnet.cidr for subnet in conductor.subnets.values()]
    assert chosen[0] != chosen[1]
    assert chosen[0] == chosen[2], "so that it is made whole after a crash"


def test_it_is_made_whole_after_a_crash_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    used(monkeypatch)
    conductor = Conductor()
    make(tmp_path, conductor)
    conductor.subnets.clear()
    make(tmp_path, conductor)
    make(tmp_path, conductor)
    assert (len(conductor.networks), len(conductor.subnets)) == (1, 1)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_range_is_chosen_where_the_cloud_may_have_local_networks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used(monkeypatch)
    conductor = Conductor()
    conf = configuration.load(["--state-dir", str(tmp_path)], "test", files=[], cli=standalone.CLI)
    configuration.override(conf, "compute_driver", "fake")
    conf.set_override("local_ranges", ["fd00::/48", "10.128.0.0/25"], group="networks")
    DefaultNetwork(conf, conductor).make()  # type: ignore[arg-type]
    assert [subnet.cidr for subnet in conductor.subnets.values()] == ["10.128.0.0/25"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"networks.default_subnet": "10.1.0.0/40"}, "10.1.0.0/40"),
        ({"compute_driver": "libvirt", "libvirt.virt_type": "test"}, "test hypervisor has no networks"),
        (
            {"compute_driver": "libvirt", "libvirt.connection_uri": "qemu+unix:///system?socket=/nonexistent"},
            "libvirt at qemu+unix",
        ),
        ({}, "routes to each range"),
    ],
)
def test_why_there_is_none_is_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    options: dict[str, str],
    reason: str,
) -> None:
    used(monkeypatch, *([] if options else [str(ipaddress.ip_network(text)) for text in ("0.0.0.0/1", "128.0.0.0/1")]))
    conductor = Conductor()
    make(tmp_path, conductor, **options)
    assert conductor.networks == {}
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "There is no network `default`" in record.getMessage()
    assert reason in record.getMessage()


def test_none_is_made_where_none_is_wanted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    conductor = Conductor()
    make(tmp_path, conductor, **{"networks.default_subnet": "none"})
    assert (conductor.networks, caplog.records) == ({}, [])
