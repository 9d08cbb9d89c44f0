"""`minova server evacuate` and `minova host evacuate` against a whole cloud: a host is forced down, and comes back."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from minova import errors
from minova.cli.client import COMPUTE, Client
from tests.cluster import Cluster
from tests.functional.cli.conftest import Cli, json_output, succeed
from tests.waiting import wait_for

TINY = ("--flavor", "tiny", "--image", "guest")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, ["h1", "h2"], update_resources_interval=1) as cluster:
        yield cluster


@pytest.fixture
def minova(cluster: Cluster, cli_without_api: Cli, tmp_path: Path) -> Cli:
    minova: Cli = lambda *words: cli_without_api("--url", cluster.url, *words)  # noqa: E731
    disk = tmp_path / "disk.raw"
    disk.write_bytes(b"\1" * 100_000)
    succeed(minova("image", "create", "guest", "--file", str(disk), "--disk-format", "raw"))
    succeed(minova("flavor", "create", "tiny", "--ram", "128", "--disk", "1"))
    return minova


def host_of(minova: Cli, name: str) -> str:
    return str(json_output(minova("server", "show", name, "-f", "json"))["OS-EXT-SRV-ATTR:host"])


def test_a_host_is_evacuated_and_serves_again(minova: Cli) -> None:
    for name in ("one", "two", "three"):
        succeed(minova("server", "create", name, *TINY, "--host", "h1", "--wait"))
    succeed(minova("server", "pause", "three", "--wait"))
    refused = minova("server", "evacuate", "one")
    assert (refused.code, "Compute service of h1 is still in use" in refused.err) == (1, True)
    succeed(minova("service", "set", "h1", "--disable", "--down"))

    assert "one: would go to h2" in succeed(minova("server", "evacuate", "one", "--dry-run")).out
    shown = minova("host", "evacuate", "h1", "--dry-run", "-f", "json")
    outcomes = {row["Name"]: row["Outcome"] for row in json.loads(shown.out)}
    assert outcomes["one"] == outcomes["two"] == "would go to h2"
    assert "Cannot 'evacuate' instance" in outcomes["three"]
    assert host_of(minova, "one") == "h1"

    succeed(minova("server", "evacuate", "one", "--host", "h2", "--wait"))
    assert host_of(minova, "one") == "h2"
    rows = {row["Name"]: row for row in json.loads(minova("host", "evacuate", "h1", "-f", "json").out)}
    assert (rows["two"]["Host"], rows["two"]["Outcome"]) == ("h2", "evacuated")
    assert (rows["three"]["Host"], rows["three"]["Outcome"].startswith("refused: ")) == ("h1", True)

    # The compute of h1 is alive here: its next audit removes what it still has.
    wait_for("h1 up", lambda: minova("service", "set", "h1", "--enable", "--up").code == 0)
    guest = json_output(minova("hypervisor", "show", "h1", "-f", "json"))
    assert guest["running_vms"] == 1
    no_servers = minova("host", "evacuate", "h9")
    assert (no_servers.code, "Host 'h9' has no servers." in no_servers.err) == (1, True)


def test_what_nothing_can_take_stays_as_it_was(minova: Cli) -> None:
    succeed(minova("server", "create", "one", *TINY, "--host", "h1", "--wait"))
    succeed(minova("service", "set", "h2", "--disable"))
    succeed(minova("service", "set", "h1", "--down"))
    (row,) = json.loads(minova("host", "evacuate", "h1", "-f", "json").out)
    assert (row["Status"], row["Host"], row["Outcome"].startswith("failed: No valid host")) == ("ACTIVE", "h1", True)
    late = minova("server", "evacuate", "one", "--wait")
    assert (late.code, "was not evacuated, it is ACTIVE: No valid host" in late.err) == (1, True)
    succeed(minova("service", "set", "h1", "--up"))


def test_the_servers_of_a_host_are_migrated(minova: Cli) -> None:
    succeed(minova("server", "create", "one", *TINY, "--host", "h1", "--wait"))
    succeed(minova("server", "create", "two", *TINY, "--host", "h1", "--wait"))
    succeed(minova("server", "pause", "two", "--wait"))
    answer = minova("host", "servers", "migrate", "h1", "-f", "json")
    rows = {row["Name"]: row for row in json.loads(answer.out)}
    assert (rows["one"]["Status"], rows["one"]["Host"]) == ("VERIFY_RESIZE", "h2")
    assert rows["one"]["Outcome"] == "migrated, to be confirmed"
    assert (answer.code, rows["two"]["Host"], rows["two"]["Outcome"].startswith("refused: ")) == (1, "h1", True)


def test_bug_server_that_failed_at_its_new_host_was_called_migrated(minova: Cli, cluster: Cluster) -> None:
    succeed(minova("server", "create", "one", *TINY, "--host", "h1", "--wait"))
    cluster.driver("h2").fail("define_moved", [errors.HypervisorError("the pool is gone")])
    answer = minova("host", "servers", "migrate", "h1", "-f", "json")
    (row,) = json.loads(answer.out)
    assert (row["Status"], row["Host"], answer.code) == ("ERROR", "h2", 1)
    assert row["Outcome"].startswith("failed: The server could not be moved.")


def test_bug_aborted_migration_was_waited_for_as_if_it_had_succeeded(minova: Cli, cluster: Cluster) -> None:
    """The newest record is that of the abort, which succeeded."""
    succeed(minova("server", "create", "one", *TINY, "--host", "h1", "--wait"))
    driver = cluster.driver("h1")
    driver.live_rounds = 1_000_000
    driver.between_rounds = lambda: time.sleep(0.01)

    def abort() -> None:
        client = Client(cluster.url).at("2.65")
        wait_for("the migration", lambda: client.get(f"{COMPUTE}/os-migrations", status="running")["migrations"])
        (migration,) = client.get(f"{COMPUTE}/os-migrations")["migrations"]
        client.delete(f"{COMPUTE}/servers/{migration['instance_uuid']}/migrations/{migration['id']}")

    with ThreadPoolExecutor(1) as pool:
        aborting = pool.submit(abort)
        answer = minova("server", "migrate", "--live-migration", "one", "--wait")
        aborting.result()
    assert (answer.code, "was not at their new hosts, it is ACTIVE: " in answer.err) == (1, True)


def test_counts_below_one_are_refused(minova: Cli) -> None:
    for option in ("--max-servers", "--parallel", "--timeout"):
        for value in ("0", "-1"):
            refused = minova("host", "servers", "migrate", "h1", option, value)
            assert refused.code == 2, (option, value)


def test_servers_migrate_while_they_run(minova: Cli) -> None:
    succeed(minova("server", "create", "one", *TINY, "--host", "h1", "--wait"))
    succeed(minova("server", "create", "two", *TINY, "--host", "h1", "--wait"))
    succeed(minova("server", "create", "off", *TINY, "--host", "h1", "--wait"))
    succeed(minova("server", "stop", "off", "--wait"))
    assert "one: would go to h2" in succeed(minova("server", "migrate", "--live-migration", "one", "--dry-run")).out
    assert "one: would go to h2" in succeed(minova("server", "migrate", "one", "--dry-run")).out
    assert host_of(minova, "one") == "h1"
    succeed(minova("server", "migrate", "--live-migration", "one", "--wait"))
    assert host_of(minova, "one") == "h2"
    (migration,) = json_output(minova("server", "migration", "list", "--server", "one", "-f", "json"))
    number = str(migration["Id"])
    shown = json_output(minova("server", "migration", "show", "one", number, "--watch", "-f", "json"))
    assert (shown["status"], shown["migration_type"]) == ("completed", "live-migration")
    late = minova("server", "migration", "abort", "one", number)
    assert (late.code, "Cannot 'abort live migration'" in late.err) == (1, True)
    late = minova("server", "migration", "force", "complete", "one", number)
    assert (late.code, "Cannot 'force_complete'" in late.err) == (1, True)
    answer = minova("host", "evacuate", "live", "h1", "-f", "json")
    rows = {row["Name"]: row for row in json.loads(answer.out)}
    assert (rows["two"]["Host"], rows["two"]["Outcome"]) == ("h2", "migrated")
    assert (answer.code, rows["off"]["Host"], "os-migrateLive" in rows["off"]["Outcome"]) == (1, "h1", True)
    alone = minova("server", "migrate", "--shared-migration", "one")
    assert (alone.code, "need --live-migration" in alone.err) == (1, True)
