"""`minova ...` against a whole cloud in this process: real services, computes whose driver keeps books."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.functional.cli.conftest import Cli, json_output, succeed

TINY = ("--flavor", "tiny", "--image", "guest")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cloud"), ["h1", "h2"]) as cluster:
        yield cluster


@pytest.fixture
def minova(cluster: Cluster, cli_without_api: Cli) -> Cli:
    return lambda *words: cli_without_api("--url", cluster.url, *words)


@pytest.fixture
def stocked(minova: Cli, tmp_path: Path) -> Cli:
    disk = tmp_path / "disk.raw"
    disk.write_bytes(b"\1" * 100_000)
    if minova("image", "show", "guest").code:
        succeed(minova("image", "create", "guest", "--file", str(disk), "--disk-format", "raw"))
        succeed(minova("flavor", "create", "tiny", "--ram", "128", "--disk", "1"))
        succeed(minova("flavor", "create", "giant", "--ram", "99999999", "--disk", "1"))
    return minova


def test_a_server_from_its_creation_to_its_end(stocked: Cli) -> None:
    words = ("--flavor", "tiny", "--image", "guest", "--availability-zone", "nova:h2", "--wait", "-f", "json")
    server = json_output(stocked("server", "create", "web", *words))
    assert (server["status"], server["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", "h2")
    assert "web" in succeed(stocked("server", "console", "log", "web")).out
    assert json_output(stocked("hypervisor", "show", "h2", "-f", "json"))["running_vms"] == 1
    assert "h2" in succeed(stocked("server", "explain", "web")).out
    succeed(stocked("server", "delete", "web", "--wait"))
    assert "web" not in succeed(stocked("server", "list")).out
    assert json_output(stocked("hypervisor", "show", "h2", "-f", "json"))["running_vms"] == 0


def test_server_has_what_its_command_line_says(stocked: Cli) -> None:
    words = ("--tag", "red", "--tag", "old", "--description", "of the shop", "--hostname", "web-1", "--host", "h2")
    created = json_output(stocked("server", "create", "said", *TINY, *words, "--wait", "-f", "json"))
    assert (created["OS-EXT-SRV-ATTR:host"], created["description"], created["hostname"]) == (
        "h2",
        "of the shop",
        "web-1",
    )
    assert sorted(created["tags"]) == ["old", "red"]
    node = created["OS-EXT-SRV-ATTR:hypervisor_hostname"]
    other = json_output(
        stocked("server", "create", "other", *TINY, "--hypervisor-hostname", node, "--wait", "-f", "json")
    )
    assert other["OS-EXT-SRV-ATTR:hypervisor_hostname"] == node
    for place in (
        ("--host", "h9"),
        ("--hypervisor-hostname", "h9"),
        ("--host", "h1", "--availability-zone", "nova:h1"),
    ):
        assert stocked("server", "create", "never", *TINY, *place).code != 0

    changes = ("--description", "mended", "--hostname", "web-2", "--tag", "new", "--password", "s3cret")
    succeed(stocked("server", "set", "said", *changes))
    succeed(stocked("server", "unset", "said", "--tag", "red"))
    shown = json_output(stocked("server", "show", "said", "--topology", "-f", "json"))
    assert (shown["description"], shown["hostname"], sorted(shown["tags"])) == ("mended", "web-2", ["new", "old"])
    assert shown["topology"]["nodes"] == []
    refused = stocked("server", "unset", "said", "--tag", "red", "--description")
    assert (refused.code, "has no tag red; nothing was unset" in refused.err) == (1, True)
    succeed(stocked("server", "unset", "said", "--all-tags", "--description"))
    shown = json_output(stocked("server", "show", "said", "-f", "json"))
    assert (shown.get("description"), shown["tags"]) == (None, [])
    assert stocked("server", "set", "said").code == stocked("server", "unset", "said").code == 2

    assert json_output(stocked("server", "show", "said", "--diagnostics", "-f", "json"))["driver"] == "libvirt"
    succeed(stocked("server", "lock", "said", "--reason", "it is mended"))
    shown = json_output(stocked("server", "show", "said", "-f", "json"))
    assert (shown["locked"], shown["locked_reason"]) == (True, "it is mended")
    listed = json_output(stocked("server", "list", "--long", "-f", "json"))
    assert {row["Name"]: row["Locked"] for row in listed} == {"said": True, "other": False}
    succeed(stocked("server", "unlock", "said"))
    events = json_output(stocked("server", "event", "list", "said", "-f", "json"))
    assert [event["Action"] for event in events] == ["unlock", "lock", "changePassword", "create"]
    none = stocked("server", "event", "list", "said", "--changes-since", "2999-01-01T00:00:00Z", "-f", "json")
    assert json_output(none) == []
    succeed(stocked("server", "delete", "said", "other", "--wait"))


def test_a_server_is_renamed_marked_locked_and_its_history_read(stocked: Cli) -> None:
    json_output(stocked("server", "create", "old", *TINY, "--wait", "-f", "json"))
    succeed(stocked("server", "set", "old", "--name", "mid", "--property", "a=1", "--property", "b=2"))
    succeed(stocked("server", "rename", "mid", "new"))
    succeed(stocked("server", "unset", "new", "--property", "a"))
    assert json_output(stocked("server", "show", "new", "-f", "json"))["properties"] == {"b": "2"}
    for words in (("unset", "new", "--property", "a"), ("set", "new"), ("lock", "new", "unknown")):
        assert stocked("server", *words).code
    succeed(stocked("server", "lock", "new"))
    succeed(stocked("server", "unlock", "new"))
    succeed(stocked("server", "set", "new", "--state", "error"))
    assert json_output(stocked("server", "show", "new", "-f", "json"))["status"] == "ERROR"
    events = json_output(stocked("server", "event", "list", "new", "--long", "-f", "json"))
    assert [event["Action"] for event in events] == ["reset_state", "unlock", "lock", "create"]
    assert {(event["User ID"], event["Result"]) for event in events} == {("admin", "Success")}
    shown = json_output(stocked("server", "event", "show", "new", events[-1]["Request ID"], "-f", "json"))
    assert [event["event"] for event in shown["events"]] == ["build_and_run_instance"]
    succeed(stocked("server", "delete", "new", "--wait"))


def test_several_servers_go_to_both_hosts(stocked: Cli) -> None:
    rows = json_output(
        stocked("server", "create", "n", "--flavor", "tiny", "--image", "guest", "--max", "6", "--wait", "-f", "json")
    )
    assert {(row["Status"], row["Host"]) for row in rows} == {("ACTIVE", "h1"), ("ACTIVE", "h2")}
    succeed(stocked("server", "delete", *(row["ID"] for row in rows), "--wait"))


def test_no_room_is_told_and_explained(stocked: Cli) -> None:
    result = stocked("server", "create", "big", "--flavor", "giant", "--image", "guest", "--wait")
    assert result.code == 1
    assert "No valid host was found. 2 hosts: " in result.err.splitlines()[-1]
    assert "99999999" in succeed(stocked("server", "explain", "big")).out
    succeed(stocked("server", "delete", "big", "--wait"))


def test_every_service_is_up(minova: Cli) -> None:
    rows = json_output(minova("service", "list", "-f", "json"))
    assert {row["State"] for row in rows} == {"up"}
    assert {row["Host"] for row in rows if row["Binary"] == "minova-compute"} == {"h1", "h2"}


# -- what would be -----------------------------------------------------------------------------------------------------


def test_a_dry_run_tells_what_a_creation_then_does(stocked: Cli) -> None:
    words = ("server", "create", "would", "--flavor", "tiny", "--image", "guest")
    result = succeed(stocked(*words, "--dry-run"))
    assert result.out.startswith("It would fit, on h")
    assert "Filters, in their order" in result.out
    assert "Weights of the best" in result.out
    record = json_output(stocked(*words, "--dry-run", "-f", "json"))
    assert "would" not in stocked("server", "list").out
    server = json_output(stocked(*words, "--wait", "-f", "json"))
    assert record["diagnosis"]["selected"][0][0] == server["OS-EXT-SRV-ATTR:host"]
    succeed(stocked("server", "delete", "would", "--wait"))


def test_a_dry_run_of_several_counts_them_by_host(stocked: Cli) -> None:
    result = succeed(
        stocked("server", "create", "n", "--flavor", "tiny", "--image", "guest", "--max", "4", "--dry-run")
    )
    assert result.out.splitlines()[0] in ("All 4 would fit, on h1: 2, h2: 2.", "All 4 would fit, on h2: 2, h1: 2.")


def test_a_dry_run_that_finds_no_host_says_why_and_fails(stocked: Cli) -> None:
    result = stocked("server", "create", "big", "--flavor", "giant", "--image", "guest", "--dry-run")
    assert result.code == 1
    assert result.out.startswith("It would not fit. No valid host was found. 2 hosts: placement removed 2 (not enough")
    assert "requested 99999999" in result.out
    assert "big" not in stocked("server", "list").out


def test_a_dry_run_counts_the_servers_of_a_group(stocked: Cli) -> None:
    succeed(stocked("server", "group", "create", "apart", "--policy", "anti-affinity"))
    words = ("server", "create", "a", "--flavor", "tiny", "--image", "guest", "--group", "apart")
    assert stocked(*words, "--max", "2", "--dry-run").code == 0
    result = stocked(*words, "--max", "3", "--dry-run")
    assert result.code == 1
    assert "ServerGroupAntiAffinityFilter" in result.out
    succeed(stocked("server", "group", "delete", "apart"))


def test_bug_dry_run_said_yes_to_what_a_quota_refuses(stocked: Cli, cluster: Cluster) -> None:
    create = ("server", "create", "limited", *TINY)
    succeed(stocked(*create, "--wait"))
    if stocked("flavor", "show", "small").code:
        succeed(stocked("flavor", "create", "small", "--ram", "128", "--disk", "1", "--vcpus", "2"))
    resize = ("server", "resize", "limited", "--flavor", "small")
    succeed(stocked(*resize, "--dry-run"))
    used = {row["Resource"]: row["In Use"] for row in json_output(stocked("quota", "list", "-f", "json"))}
    succeed(stocked("quota", "set", "admin", "--cores", str(used["cores"])))
    try:
        for command in (create, resize):
            refusals = [stocked(*command, *words) for words in (("--dry-run",), ())]
            assert [(refusal.code, "Quota exceeded for cores" in refusal.err) for refusal in refusals] == [
                (1, True)
            ] * 2
        succeed(stocked("quota", "set", "admin", "--cores", str(used["cores"] + 2)))
        some = succeed(stocked(*create, "--min", "1", "--max", "3", "--dry-run")).out
        assert some.startswith("All 2 would fit")
        assert "Quota exceeded for cores" in stocked(*create, "--min", "3", "--max", "3", "--dry-run").err
    finally:
        succeed(stocked("quota", "delete", "admin"))
        succeed(stocked("server", "delete", "limited", "--wait"))


def test_capacity_tells_how_many_fit_where_and_what_runs_out(stocked: Cli) -> None:
    whole = json_output(stocked("capacity", "--flavor", "tiny", "-f", "json"))
    assert whole["total"] == sum(host["count"] for host in whole["hosts"])
    assert {host["host"] for host in whole["hosts"]} == {"h1", "h2"}
    result = succeed(stocked("capacity", "--flavor", "tiny", "--image", "guest", "--availability-zone", "nova:h1"))
    lines = result.out.splitlines()
    assert lines[0] == f"{whole['hosts'][0]['count']} more of flavor tiny fit, on 1 of 2 hosts."
    assert "not one of the forced hosts h1" in result.out
    assert succeed(stocked("capacity", "--flavor", "giant")).out.startswith(
        "0 more of flavor giant fit, on 0 of 2 hosts."
    )
    some = succeed(stocked("capacity", "--flavor", "tiny", "--limit", "2")).out
    assert some.startswith("At least 4 more of flavor tiny fit, on 2 of 2 hosts.")


def test_what_cannot_be_asked_for_is_refused_in_one_line(stocked: Cli) -> None:
    assert (
        "--min 3 is above --max 2"
        in stocked("server", "create", "n", *TINY, "--min", "3", "--max", "2", "--dry-run").err
    )
    assert "no flavor with the name or ID 'none'" in stocked("capacity", "--flavor", "none").err
    assert "zone is not available: mars" in stocked("capacity", "--flavor", "tiny", "--availability-zone", "mars").err
    assert stocked("capacity", "--flavor", "tiny", "--limit", "0").code == 2
