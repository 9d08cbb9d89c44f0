"""Options of OpenStack's client against minova-api itself: what is listed, and what is changed."""

import uuid
from datetime import timedelta
from pathlib import Path

import pytest

from minova.db import models
from minova.objects.servers.states import VmState
from tests.fakes.row_conductor import now
from tests.functional.api.conftest import Cloud
from tests.functional.cli.conftest import Cli, json_output, succeed

JSON = ("-f", "json")
CREATE = ("server", "create", "--image", "guest")


def names(minova: Cli, *words: str) -> set[str]:
    return {row["Name"] for row in json_output(minova("server", "list", *words, *JSON))}


def ids(minova: Cli, *words: str) -> dict[str, str]:
    return {row["Name"]: row["ID"] for row in json_output(minova("server", "list", *words, *JSON))}


@pytest.fixture
def three(stocked: Cli, cloud: Cloud, disk: Path) -> Cli:
    """Servers plain, other and foreign; the last one is another project's. other differs from plain in all that can be asked."""
    succeed(stocked("flavor", "create", "big", "--ram", "256"))
    succeed(stocked("image", "create", "second", "--file", str(disk), "--disk-format", "raw"))
    succeed(stocked(*CREATE, "plain", "--flavor", "tiny"))
    succeed(stocked("server", "create", "other", "--flavor", "big", "--image", "second", "--tag", "red"))
    succeed(stocked(*CREATE, "foreign", "--flavor", "tiny"))
    id_by_name = ids(stocked)
    for name in id_by_name:
        cloud.conductor.edit(id_by_name[name], vm_state="active", task_state=None, power_state=1)
    changed = {
        "config_drive": True,
        "vm_state": "stopped",
        "task_state": "powering-on",
        "power_state": 4,
        "key_name": "mine",
        "locked_by": "owner",
        "user_id": "bob",
        "progress": 50,
        "host": "h2",
        "reservation_id": "r-other",
        "updated_at": now() + timedelta(days=2),
    }
    cloud.conductor.edit(id_by_name["other"], **changed)
    cloud.conductor.edit(id_by_name["foreign"], project_id="theirs")
    return stocked


# Filters by the server that meets them.
MEETS = {
    "other": [
        ("--vm-state", "stopped"),
        ("--status", "shutoff"),
        ("--task-state", "powering-on"),
        ("--power-state", "shutdown"),
        ("--key-name", "mine"),
        ("--locked",),
        ("--user", "bob"),
        ("--progress", "50"),
        ("--host", "h2"),
        ("--reservation-id", "r-other"),
        ("--config-drive",),
        ("--flavor", "big"),
        ("--image", "second"),
        ("--tags", "red"),
        ("--changes-since", (now() + timedelta(days=1)).isoformat()),
    ],
    "plain": [
        ("--unlocked",),
        ("--no-config-drive",),
        ("--not-tags", "red"),
        ("--changes-before", (now() + timedelta(days=1)).isoformat()),
        ("--power-state", "running"),
    ],
}


def test_each_filter_leaves_the_server_that_meets_it(three: Cli) -> None:
    expected = {words: {name} for name, filters in MEETS.items() for words in filters}
    assert {words: names(three, *words) for words in expected} == expected


def test_servers_of_other_projects_and_deleted_ones(three: Cli, cloud: Cloud) -> None:
    id_by_name = ids(three, "--all-projects")
    assert id_by_name.keys() == {"plain", "other", "foreign"}
    assert names(three) == {"plain", "other"}
    assert names(three, "--project", "theirs") == {"foreign"}
    assert names(three, "--project", "theirs", "--marker", "foreign") == set()
    assert names(three, "--instance-name", id_by_name["plain"]) == {"plain"}
    unknown = three("server", "stop", "foreign")
    assert (unknown.code, "There is no server with the name or ID 'foreign'" in unknown.err) == (1, True)
    succeed(three("server", "stop", "foreign", "--all-projects"))
    assert [action[:2] for action in cloud.conductor.actions] == [(id_by_name["foreign"], "stop")]
    cloud.conductor.edit(id_by_name["plain"], vm_state=VmState.DELETED, deleted_at=now())
    assert names(three, "--deleted") == {"plain"}


def test_the_network_of_a_new_server_may_be_a_word(stocked: Cli, cloud: Cloud) -> None:
    succeed(stocked(*CREATE, "alone", "--flavor", "tiny", "--no-network"))
    refused = stocked(*CREATE, "auto", "--flavor", "tiny", "--auto-network")
    assert (refused.code, "Unable to automatically allocate a network" in refused.err) == (1, True)
    # The dry run is asked in the same version.
    dry = stocked(*CREATE, "auto", "--flavor", "tiny", "--auto-network", "--dry-run")
    assert (dry.code, "Unable to automatically allocate a network" in dry.err) == (1, True)
    assert names(stocked) == {"alone"}


def test_what_is_not_served_is_refused_with_its_reason(stocked: Cli) -> None:
    certificate = stocked(*CREATE, "x", "--flavor", "tiny", "--trusted-image-cert", "c")
    assert (certificate.code, "Not served yet: trusted_image_certificates" in certificate.err) == (1, True)
    succeed(stocked(*CREATE, "web", "--flavor", "tiny"))
    kept = stocked("server", "rebuild", "web", "--preserve-ephemeral")
    assert (kept.code, "does not support preserving ephemeral" in kept.err) == (1, True)


def test_pages_of_events(stocked: Cli, cloud: Cloud) -> None:
    succeed(stocked(*CREATE, "web", "--flavor", "tiny"))
    server = ids(stocked)["web"]
    requests = [f"req-{uuid.uuid4()}" for _ in range(4)]
    for number, request in enumerate(requests):
        started = now() + timedelta(seconds=number + 1)
        cloud.conductor.add(
            models.InstanceAction(
                instance_uuid=server,
                request_id=request,
                action="stop",
                user_id="u",
                project_id="admin",
                start_time=started,
            )
        )
    newest = requests[::-1]

    def listed(*words: str) -> list[str]:
        return [row["Request ID"] for row in json_output(stocked("server", "event", "list", "web", *words, *JSON))]

    assert listed()[:4] == newest
    assert listed("--limit", "2") == newest[:2]
    assert listed("--limit", "2", "--marker", newest[1]) == newest[2:4]
    cloud.conf.set_override("max_limit", 1, group="api")
    assert listed("--max-items", "3") == newest[:3]
    assert listed()[:4] == newest


def test_the_pinned_zone(stocked: Cli, cloud: Cloud) -> None:
    succeed(stocked(*CREATE, "web", "--flavor", "tiny"))
    refused = stocked("server", "set", "web", "--pinned-availability-zone", "nowhere")
    assert (refused.code, "nowhere" in refused.err) == (1, True)
    cloud.conductor.edit(ids(stocked)["web"], vm_state="active", task_state=None, availability_zone="nova")
    succeed(stocked("server", "unset", "web", "--pinned-availability-zone"))
    (row,) = cloud.get("/v2.1/servers/detail", headers={"OpenStack-API-Version": "compute 2.96"})["servers"]
    assert row["pinned_availability_zone"] is None


@pytest.mark.parametrize(
    ("answer", "words", "state"), [("n\n", (), "active"), ("y\n", (), "error"), ("", ("--auto-approve",), "error")]
)
def test_a_terminal_is_asked_before_a_state_is_set(
    stocked: Cli, cloud: Cloud, monkeypatch: pytest.MonkeyPatch, answer: str, words: tuple[str, ...], state: str
) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

        def readline(self) -> str:
            return answer

    succeed(stocked(*CREATE, "web", "--flavor", "tiny"))
    cloud.conductor.edit(ids(stocked)["web"], vm_state="active", task_state=None)
    monkeypatch.setattr("sys.stdin", Terminal())
    done = stocked("server", "set", "web", "--state", "error", *words)
    assert done.code == (0 if state == "error" else 1)
    assert ("Set it to error? [y/n]" in done.err) == (not words)
    assert json_output(stocked("server", "show", "web", *JSON))["OS-EXT-STS:vm_state"] == state


@pytest.mark.parametrize(("second", "code"), [("new", 0), ("nwe", 1)])
def test_a_password_that_is_typed(
    stocked: Cli, cloud: Cloud, monkeypatch: pytest.MonkeyPatch, second: str, code: int
) -> None:
    succeed(stocked(*CREATE, "web", "--flavor", "tiny"))
    cloud.conductor.edit(ids(stocked)["web"], vm_state="active", task_state=None, host="h1")
    typed = ["new", second]
    monkeypatch.setattr("getpass.getpass", lambda _: typed.pop(0))
    assert stocked("server", "set", "web", "--root-password").code == code
    assert [(action[1], action[2]) for action in cloud.conductor.actions] == [
        ("change_password", {"admin_password": "new"})
    ] * (1 - code)


def test_several_security_groups_at_once(stocked: Cli, cloud: Cloud) -> None:
    succeed(stocked("network", "create", "blue"))
    succeed(stocked("subnet", "create", "front", "--network", "blue", "--subnet-range", "10.1.0.0/24"))
    for name in ("web", "ssh"):
        succeed(stocked("security", "group", "create", name))
    succeed(stocked(*CREATE, "one", "--flavor", "tiny", "--no-security-group"))

    def groups() -> list[str]:
        (server,) = cloud.get("/v2.1/servers/detail")["servers"]
        return sorted(group["name"] for group in server["security_groups"])

    words = ("security", "group", "one")
    unknown = stocked("server", "add", *words, "web", "nowhere")
    assert (unknown.code, "There is no security group" in unknown.err) == (1, True)
    assert groups() == ["default"]  # as in Nova, none of the user's choosing
    succeed(stocked("server", "add", *words, "web", "ssh", "web"))
    assert groups() == ["default", "ssh", "web"]
    succeed(stocked("server", "remove", *words, "default", "web"))
    assert groups() == ["ssh"]
