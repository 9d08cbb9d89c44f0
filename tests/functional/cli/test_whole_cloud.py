"""`minova ...` against a whole cloud in this process: real services, computes whose driver keeps books."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.functional.cli.conftest import Cli, good, shown

TINY = ("--flavor", "tiny", "--image", "guest")


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


# -- what would be -----------------------------------------------------------------------------------------------------


def test_a_dry_run_tells_what_a_creation_then_does(stocked: Cli) -> None:
    words = ("server", "create", "would", "--flavor", "tiny", "--image", "guest")
    said = good(stocked(*words, "--dry-run"))
    assert said.out.startswith("It would fit, on h")
    assert "Filters, in their order" in said.out
    assert "Weights of the best" in said.out
    record = shown(stocked(*words, "--dry-run", "-f", "json"))
    assert "would" not in stocked("server", "list").out
    server = shown(stocked(*words, "--wait", "-f", "json"))
    assert record["diagnosis"]["selected"][0][0] == server["OS-EXT-SRV-ATTR:host"]
    good(stocked("server", "delete", "would", "--wait"))


def test_a_dry_run_of_several_counts_them_by_host(stocked: Cli) -> None:
    said = good(stocked("server", "create", "n", "--flavor", "tiny", "--image", "guest", "--max", "4", "--dry-run"))
    assert said.out.splitlines()[0] in ("All 4 would fit, on h1: 2, h2: 2.", "All 4 would fit, on h2: 2, h1: 2.")


def test_a_dry_run_that_finds_no_host_says_why_and_fails(stocked: Cli) -> None:
    said = stocked("server", "create", "big", "--flavor", "giant", "--image", "guest", "--dry-run")
    assert said.code == 1
    assert said.out.startswith("It would not fit. No valid host was found. 2 hosts: placement removed 2 (not enough")
    assert "requested 99999999" in said.out
    assert "big" not in stocked("server", "list").out


def test_a_dry_run_counts_the_servers_of_a_group(stocked: Cli) -> None:
    good(stocked("server", "group", "create", "apart", "--policy", "anti-affinity"))
    words = ("server", "create", "a", "--flavor", "tiny", "--image", "guest", "--group", "apart")
    assert stocked(*words, "--max", "2", "--dry-run").code == 0
    said = stocked(*words, "--max", "3", "--dry-run")
    assert said.code == 1
    assert "ServerGroupAntiAffinityFilter" in said.out
    good(stocked("server", "group", "delete", "apart"))


def test_capacity_tells_how_many_fit_where_and_what_runs_out(stocked: Cli) -> None:
    whole = shown(stocked("capacity", "--flavor", "tiny", "-f", "json"))
    assert whole["total"] == sum(host["count"] for host in whole["hosts"])
    assert {host["host"] for host in whole["hosts"]} == {"h1", "h2"}
    said = good(stocked("capacity", "--flavor", "tiny", "--image", "guest", "--availability-zone", "nova:h1"))
    lines = said.out.splitlines()
    assert lines[0] == f"{whole['hosts'][0]['count']} more of flavor tiny fit, on 1 of 2 hosts."
    assert "not one of the forced hosts h1" in said.out
    assert good(stocked("capacity", "--flavor", "giant")).out.startswith("0 more of flavor giant fit, on 0 of 2 hosts.")
    some = good(stocked("capacity", "--flavor", "tiny", "--limit", "2")).out
    assert some.startswith("At least 4 more of flavor tiny fit, on 2 of 2 hosts.")


def test_what_cannot_be_asked_for_is_refused_in_one_line(stocked: Cli) -> None:
    assert (
        "--min 3 is above --max 2"
        in stocked("server", "create", "n", *TINY, "--min", "3", "--max", "2", "--dry-run").err
    )
    assert "no flavor with the name or ID 'none'" in stocked("capacity", "--flavor", "none").err
    assert "zone is not available: mars" in stocked("capacity", "--flavor", "tiny", "--availability-zone", "mars").err
    assert stocked("capacity", "--flavor", "tiny", "--limit", "0").code == 2
