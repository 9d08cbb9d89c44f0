"""`minova ...` against a whole cloud in this process: real services, computes whose driver keeps books."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.functional.cli.conftest import Cli, good, shown


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cloud"), ["h1", "h2"]) as cluster:
        yield cluster


@pytest.fixture
def minova(cluster: Cluster, anywhere: Cli) -> Cli:
    return lambda *words: anywhere("--url", cluster.url, *words)


@pytest.fixture
def stocked(minova: Cli, tmp_path: Path) -> Cli:
    disk = tmp_path / "disk.raw"
    disk.write_bytes(b"\1" * 100_000)
    if minova("image", "show", "guest").code:
        good(minova("image", "create", "guest", "--file", str(disk), "--disk-format", "raw"))
        good(minova("flavor", "create", "tiny", "--ram", "128", "--disk", "1"))
        good(minova("flavor", "create", "giant", "--ram", "99999999", "--disk", "1"))
    return minova


def test_a_server_from_its_creation_to_its_end(stocked: Cli) -> None:
    words = ("--flavor", "tiny", "--image", "guest", "--availability-zone", "nova:h2", "--wait", "-f", "json")
    server = shown(stocked("server", "create", "web", *words))
    assert (server["status"], server["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", "h2")
    assert "web" in good(stocked("server", "console", "log", "web")).out
    assert shown(stocked("hypervisor", "show", "h2", "-f", "json"))["running_vms"] == 1
    assert "h2" in good(stocked("server", "explain", "web")).out
    good(stocked("server", "delete", "web", "--wait"))
    assert "web" not in good(stocked("server", "list")).out
    assert shown(stocked("hypervisor", "show", "h2", "-f", "json"))["running_vms"] == 0


def test_several_servers_go_to_both_hosts(stocked: Cli) -> None:
    rows = shown(
        stocked("server", "create", "n", "--flavor", "tiny", "--image", "guest", "--max", "6", "--wait", "-f", "json")
    )
    assert {(row["Status"], row["Host"]) for row in rows} == {("ACTIVE", "h1"), ("ACTIVE", "h2")}
    good(stocked("server", "delete", *(row["ID"] for row in rows), "--wait"))


def test_no_room_is_told_and_explained(stocked: Cli) -> None:
    said = stocked("server", "create", "big", "--flavor", "giant", "--image", "guest", "--wait")
    assert said.code == 1
    assert "No valid host was found. 2 hosts: " in said.err.splitlines()[-1]
    assert "99999999" in good(stocked("server", "explain", "big")).out
    good(stocked("server", "delete", "big", "--wait"))


def test_every_service_is_up(minova: Cli) -> None:
    rows = shown(minova("service", "list", "-f", "json"))
    assert {row["State"] for row in rows} == {"up"}
    assert {row["Host"] for row in rows if row["Binary"] == "minova-compute"} == {"h1", "h2"}
