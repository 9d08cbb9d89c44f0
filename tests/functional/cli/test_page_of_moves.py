"""docs/operators/moves.md to the letter: its commands, in their order, empty a host and bring back one that has died."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from tests.cluster import Cluster
from tests.functional.cli.conftest import Cli, json_output, succeed
from tests.functional.cli.test_evacuation import TINY, cluster, host_of, minova  # noqa: F401
from tests.waiting import wait_for

PAGE = Path(__file__).parents[3] / "docs" / "operators" / "moves.md"


def commands(title: str, **names: str) -> Iterator[list[str]]:
    """Those of the numbered steps of a section, without the ones that stand in brackets or after "One server"."""
    section = PAGE.read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]
    for step in re.findall(r"^\d\. (.*)", section, re.MULTILINE):
        for command in re.findall(r"`minova ([^`]+)`", step.partition("One server")[0]):
            yield [names.get(word, word) for word in shlex.split(command)]


def test_a_host_is_emptied(minova: Cli) -> None:  # noqa: F811
    for name in ("runs", "off"):
        succeed(minova("server", "create", name, *TINY, "--host", "h1", "--wait"))
    succeed(minova("server", "stop", "off", "--wait"))
    steps = list(commands("Empty a host", HOST="h1", SERVER="off"))
    assert [" ".join(step[:3]) for step in steps] == [
        "service set h1",
        "host evacuate live",
        "host evacuate live",
        "host servers migrate",
        "server migration confirm",
        "server list --all-projects",
        "server migration list",
    ]
    disable, dry_run, live, off, confirm, servers, moves = steps
    succeed(minova(*disable))
    minova(*dry_run)
    assert host_of(minova, "runs") == "h1"
    minova(*live)  # 1: the server that is off has not migrated
    succeed(minova(*off))
    succeed(minova(*confirm))
    assert (host_of(minova, "runs"), host_of(minova, "off")) == ("h2", "h2")
    assert json_output(minova(*servers, "-f", "json")) == []

    def statuses() -> set[str]:
        return {row["Status"] for row in json_output(minova(*moves, "-f", "json"))}

    # Both hosts show their copies before one goes.
    wait_for("the confirmation", lambda: statuses() == {"completed", "confirmed"})


def test_a_host_that_has_died_is_evacuated_and_returns(minova: Cli, cluster: Cluster) -> None:  # noqa: F811
    for name in ("one", "two"):
        succeed(minova("server", "create", name, *TINY, "--host", "h1", "--wait"))
    down, dry_run, evacuate, up = commands("A host has died", HOST="h1")
    cluster.computes.pop("h1").stop()
    succeed(minova(*down))
    assert json_output(minova(*dry_run, "-f", "json"))[0]["Outcome"] == "would go to h2"
    succeed(minova(*evacuate))
    assert (host_of(minova, "one"), host_of(minova, "two")) == ("h2", "h2")
    assert "2 evacuations from it are not completed" in minova(*up).err
    cluster.add_compute("h1")
    wait_for("h1 up", lambda: minova(*up).code == 0)


def test_a_move_that_no_host_can_take_is_refused_at_once(minova: Cli) -> None:  # noqa: F811
    """And administrators get the reasons."""
    succeed(minova("server", "create", "stays", *TINY, "--host", "h1", "--wait"))
    succeed(minova("service", "set", "h2", "--disable"))
    for options in ((), ("--live-migration",)):
        refused = minova("server", "migrate", *options, "stays")
        assert refused.code == 1
        excluded = "the server must leave it, or a copy of the server is there, or the request excludes it"
        why = f"ignore_hosts removed 1 ({excluded}), ComputeFilter removed 1."
        assert f"No valid host was found. 2 hosts: {why}" in refused.err
    assert json_output(minova("server", "migration", "list", "--server", "stays", "-f", "json")) == []
    assert host_of(minova, "stays") == "h1"
