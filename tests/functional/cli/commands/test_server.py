"""`minova server ...` against an API that keeps books."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.api_server import ApiServer
from tests.fakes.compute_api import BUILDS, FAILS, NEVER_ENDS, NO_HOST
from tests.functional.cli.conftest import Cli


@pytest.fixture(autouse=True)
def catalogue(api: ApiServer) -> None:
    api.add_flavor("m1.small", "42")
    api.add_image("guest")


CREATE = ("server", "create", "web", "--flavor", "m1.small", "--image", "guest")


def test_create_shows_the_server_with_its_names(api: ApiServer, cli: Cli) -> None:
    result = cli(*CREATE, "-f", "json")
    assert result.code == 0, result.err
    shown = json.loads(result.out)
    (uuid,) = api.servers
    assert (shown["id"], shown["name"], shown["status"]) == (uuid, "web", "ACTIVE")
    assert shown["flavor"] == "m1.small (42)"
    assert shown["image"].startswith("guest (")
    assert shown["adminPass"] == "s3cret"


def test_create_says_all_that_was_asked(api: ApiServer, cli: Cli, tmp_path) -> None:  # type: ignore[no-untyped-def]
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    result = cli(
        *CREATE,
        *("--availability-zone", "nova:host7", "--property", "a=1", "--property", "b=x=y"),
        *("--hint", "colour=red", "--hint", "a=p", "--hint", "a=q"),
        *("--user-data", str(script), "--config-drive", "--key-name", "mine"),
        *("--password", "s3cret", "--file", f"/etc/motd={script}"),
    )
    assert result.code == 0, result.err
    (body,) = [body for method, _, body in api.requests if method == "POST"]
    (image,) = api.images
    assert body == {
        "server": {
            "name": "web",
            "min_count": 1,
            "max_count": 1,
            "metadata": {"a": "1", "b": "x=y"},
            "flavorRef": "42",
            "imageRef": image,
            "availability_zone": "nova:host7",
            "user_data": "IyEvYmluL3NoCg==",
            "config_drive": True,
            "key_name": "mine",
            "adminPass": "s3cret",
            "personality": [{"path": "/etc/motd", "contents": "IyEvYmluL3NoCg=="}],
        },
        "os:scheduler_hints": {"colour": "red", "a": ["p", "q"]},
    }


@pytest.mark.parametrize("faults", [("lost",), ("busy", "busy"), ("busy", "lost")])
def test_create_repeated_after_a_lost_answer_makes_one_server(
    api: ApiServer, cli: Cli, faults: tuple[str, ...]
) -> None:
    api.order(*faults)
    result = cli(*CREATE)
    assert result.code == 0, result.err
    assert len(api.servers) == 1
    assert sum(method == "POST" for method, _, _ in api.requests) == len(faults) + 1


def test_wait_without_a_terminal_prints_a_line_for_each_change_then_the_table(api: ApiServer, cli: Cli) -> None:
    api.script = BUILDS
    result = cli(*CREATE, "--wait")
    assert result.code == 0, result.err
    changes = [line.partition("web: ")[2] for line in result.err.splitlines()]
    assert changes == ["BUILD scheduling", "BUILD networking on host1", "BUILD spawning on host1", "ACTIVE on host1"]
    assert "| ACTIVE" in result.out


def test_wait_for_a_build_that_fails_ends_with_the_reason_and_exit_code_1(api: ApiServer, cli: Cli) -> None:
    api.script = FAILS
    result = cli(*CREATE, "--wait")
    (uuid,) = api.servers
    assert result.code == 1
    assert "| ERROR" in result.out
    assert result.err.splitlines()[-1] == (
        f"minova: Server web ({uuid}) failed: {NO_HOST} See 'minova server explain {uuid}'."
    )


def test_wait_gives_up_at_its_timeout_and_says_that_the_build_goes_on(api: ApiServer, cli: Cli) -> None:
    api.script = NEVER_ENDS
    result = cli(*CREATE, "--wait", "--timeout", "0.3")
    assert result.code == 1
    assert "Waited 0.3 s: web is BUILD scheduling" in result.err
    assert "still being built" in result.err


def test_wait_survives_an_api_that_is_busy_for_a_while(api: ApiServer, cli: Cli) -> None:
    api.script = BUILDS
    api.order("busy", "lost", method="GET")
    result = cli(*CREATE, "--wait")
    assert result.code == 0, result.err


def test_wait_for_a_server_that_is_deleted_meanwhile(api: ApiServer, cli: Cli) -> None:
    api.script = (*NEVER_ENDS, {"gone": True})
    result = cli(*CREATE, "--wait")
    assert result.code == 1
    assert "was deleted while it was being built" in result.err


def test_several_servers_are_a_list_in_the_order_of_their_numbers(api: ApiServer, cli: Cli) -> None:
    api.script = BUILDS
    result = cli(*CREATE, "--min", "2", "--max", "11", "--wait", "-f", "json")
    assert result.code == 0, result.err
    assert [row["Name"] for row in json.loads(result.out)] == [f"web-{number}" for number in range(1, 12)]
    assert {row["Status"] for row in json.loads(result.out)} == {"ACTIVE"}


def test_of_several_that_fail_each_has_its_reason(api: ApiServer, cli: Cli) -> None:
    api.script = FAILS
    result = cli(*CREATE, "--max", "3", "--wait")
    assert result.code == 1
    assert result.err.count(NO_HOST) == 3


BAD_CREATE = {
    "unknown flavor": (
        ("--flavor", "m9.huge"),
        1,
        "There is no flavor with the name or ID 'm9.huge'. 'minova flavor list'",
    ),
    "unknown image": (("--image", "none"), 1, "There is no image with the name or ID 'none'. 'minova image list'"),
    "min above max": (("--min", "3", "--max", "2"), 2, "--min 3 is above --max 2"),
    "a count of zero": (("--min", "0"), 2, "0 is below 1"),
    "a count that is no number": (("--max", "many"), 2, "'many' is not a whole number"),
    "a property without a value": (("--property", "colour"), 2, "'colour' is not KEY=VALUE"),
    "a hint without a key": (("--hint", "=x"), 2, "'=x' is not KEY=VALUE"),
    "user data that are not there": (
        ("--user-data", "/nowhere/script"),
        1,
        "Cannot read the user data /nowhere/script",
    ),
    "user data that are a folder": (("--user-data", "/"), 1, "Cannot read the user data /: Is a directory"),
    "a time limit that is none": (("--timeout", "nan"), 2, "'nan' is not a number of seconds"),
    "a mistyped option": (("--flavour", "x"), 2, "unknown option --flavour. Did you mean --flavor?"),
    "a host said twice": (("--host", "a", "--availability-zone", "nova:b"), 2, "say the same thing"),
}


@pytest.mark.parametrize("case", BAD_CREATE)
def test_bad_create_says_what_is_wrong_and_makes_nothing(api: ApiServer, cli: Cli, case: str) -> None:
    words, code, message = BAD_CREATE[case]
    result = cli(*CREATE, *words)
    assert result.code == code
    assert message in result.err
    assert "Traceback" not in result.err
    assert not api.servers


def test_an_ambiguous_name_lists_the_ids(api: ApiServer, cli: Cli) -> None:
    first, second = api.add_image("twin"), api.add_image("twin")
    result = cli(*CREATE, "--image", "twin")
    assert result.code == 1
    assert result.err == (f"minova: 2 images have the name 'twin'. Say which by ID: {first['id']}, {second['id']}\n")


def test_list_pages_through_all(api: ApiServer, cli: Cli) -> None:
    api.max_limit = 2
    server_names = [api.add_server(f"s{number}")["name"] for number in range(5)]
    result = cli("server", "list", "-f", "value", "-c", "Name")
    assert result.out.split() == server_names[::-1]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ((), ["b2", "b1", "a1"]),
        (("--limit", "2"), ["b2", "b1"]),
        (("--marker", "b2"), ["b1", "a1"]),
        (("--name", "b"), ["b2", "b1"]),
        (("--status", "error"), ["b1"]),
    ],
)
def test_list_takes_what_is_asked(api: ApiServer, cli: Cli, words: tuple[str, ...], names: list[str]) -> None:
    api.add_server("a1")
    api.add_server("b1", FAILS[1:])
    api.add_server("b2")
    result = cli("server", "list", *words, "-f", "value", "-c", "Name")
    assert (result.code, result.out.split()) == (0, names), result.err


@pytest.mark.parametrize("form", ["table", "json", "csv", "value", "yaml"])
def test_list_long_in_every_form(api: ApiServer, cli: Cli, form: str) -> None:
    api.add_server("web", addresses={"net": [{"addr": "10.0.0.5"}]}, metadata={"a": "1"})
    result = cli("server", "list", "--long", "-f", form)
    assert result.code == 0, result.err
    assert "10.0.0.5" in result.out
    assert "m1.small" in result.out


@pytest.mark.parametrize("form", ["table", "json", "shell", "value", "yaml"])
def test_show_in_every_form(api: ApiServer, cli: Cli, form: str) -> None:
    api.add_server("web", FAILS[1:])
    result = cli("server", "show", "web", "-f", form)
    assert result.code == 0, result.err
    assert NO_HOST in result.out


@pytest.mark.parametrize(("status", "is_shown"), [("REBUILD", True), ("MIGRATING", True), ("PAUSED", False)])
def test_progress_is_shown_where_there_may_be_some(api: ApiServer, cli: Cli, status: str, is_shown: bool) -> None:
    api.add_server("web", ({"status": status, "host": "host1"},), progress=40)
    shown = json.loads(cli("server", "show", "web", "-f", "json").out)
    assert shown.get("progress") == (40 if is_shown else None)


def test_the_power_state_is_a_word_for_people_and_a_number_for_programs(api: ApiServer, cli: Cli) -> None:
    api.add_server("web")
    assert "| Running" in cli("server", "show", "web").out
    assert json.loads(cli("server", "show", "web", "-f", "json").out)["OS-EXT-STS:power_state"] == 1
    assert json.loads(cli("server", "list", "--long", "-f", "json").out)[0]["Power State"] == 1


def test_a_server_whose_flavor_and_image_are_gone_is_shown_all_the_same(api: ApiServer, cli: Cli) -> None:
    api.add_server("web", flavor={"id": "old-flavor"}, image={"id": "old-image"})
    for words in (("server", "show", "web"), ("server", "list")):
        result = cli(*words)
        assert result.code == 0, result.err
        assert "old-flavor" in result.out
        assert "old-image" in result.out


def test_a_name_wins_nothing_over_an_id_and_an_id_is_found_at_once(api: ApiServer, cli: Cli) -> None:
    server = api.add_server("web")
    api.add_server(server["id"])
    assert json.loads(cli("server", "show", server["id"], "-f", "json").out)["name"] == "web"


@pytest.mark.parametrize("name", ["with space", "ä.b", "(x", "a&b=c#d", "s", "show"])
def test_odd_names_are_found(api: ApiServer, cli: Cli, name: str) -> None:
    uuid = api.add_server(name)["id"]
    api.consoles[uuid] = "hello\n"
    assert uuid in cli("server", "show", name).out
    assert cli("server", "console", "log", "show", name).out == "hello\n"


def test_delete_takes_names_and_ids_and_waits(api: ApiServer, cli: Cli) -> None:
    api.add_server("one")
    two = api.add_server("two")["id"]
    keep = api.add_server("keep")["id"]
    result = cli("server", "delete", "one", two, "one", "--wait")
    assert result.code == 0, result.err
    assert list(api.servers) == [keep]


@pytest.mark.parametrize(
    ("verb", "body", "status"),
    [
        (["stop"], {"os-stop": None}, "SHUTOFF"),
        (["start"], {"os-start": None}, "ACTIVE"),
        (["reboot"], {"reboot": {"type": "SOFT"}}, "ACTIVE"),
        (["reboot", "--soft"], {"reboot": {"type": "SOFT"}}, "ACTIVE"),
        (["reboot", "--hard"], {"reboot": {"type": "HARD"}}, "ACTIVE"),
        (["pause"], {"pause": None}, "PAUSED"),
        (["unpause"], {"unpause": None}, "ACTIVE"),
        (["suspend"], {"suspend": None}, "SUSPENDED"),
        (["resume"], {"resume": None}, "ACTIVE"),
        (["rescue"], {"rescue": {}}, "RESCUE"),
        (["unrescue"], {"unrescue": None}, "ACTIVE"),
        (["shelve"], {"shelve": None}, "SHELVED_OFFLOADED"),
        (["unshelve"], {"unshelve": None}, "ACTIVE"),
        (["unshelve", "--availability-zone", "z"], {"unshelve": {"availability_zone": "z"}}, "ACTIVE"),
        (
            ["unshelve", "--no-availability-zone", "--host", "h"],
            {"unshelve": {"availability_zone": None, "host": "h"}},
            "ACTIVE",
        ),
        (["resize", "--flavor", "m1.tiny"], {"resize": {"flavorRef": "1"}}, "VERIFY_RESIZE"),
        (["resize", "confirm"], {"confirmResize": None}, "ACTIVE"),
        (["resize", "revert"], {"revertResize": None}, "ACTIVE"),
        (["migrate"], {"migrate": None}, "VERIFY_RESIZE"),
        (["migrate", "--host", "host2"], {"migrate": {"host": "host2"}}, "VERIFY_RESIZE"),
        (["restore"], {"restore": None}, "ACTIVE"),
        (["dump", "create"], {"trigger_crash_dump": None}, "ACTIVE"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_actions_take_names_and_ids_and_wait(api: ApiServer, cli: Cli, verb: list[str], body: Any, status: str) -> None:
    api.add_flavor("m1.tiny", "1")
    api.add_server("one")
    two = api.add_server("two")["id"]
    result = cli("server", *verb, "one", two, "one", "--wait")
    assert result.code == 0, result.err
    assert [server["status"] for server in api.servers.values()] == [status, status]
    assert [sent for method, path, sent in api.requests if method == "POST"] == [body] * 2


@pytest.mark.parametrize(
    ("verb", "meanwhile"),
    [
        (["reboot"], "REBOOT reboot_started"),
        (["rebuild"], "REBUILD rebuild_spawning"),
        (["stop"], "ACTIVE powering-off"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_action_is_waited_for_whatever_the_status_is_meanwhile(
    api: ApiServer, cli: Cli, verb: list[str], meanwhile: str
) -> None:
    server_id = api.add_server("one")["id"]
    result = cli("server", *verb, "one", "--wait")
    assert result.code == 0, result.err
    assert [line.partition("one: ")[2] for line in result.err.splitlines()] == [
        f"{meanwhile} on host1",
        f"{api.servers[server_id]['status']} on host1",
    ]


def test_a_shelve_may_go_on_with_an_offload(api: ApiServer, cli: Cli) -> None:
    """Of what is shelved and still on its host, also from before; nothing that is done is asked for again."""
    names = {"running": "ACTIVE", "shelved": "SHELVED", "gone": "SHELVED_OFFLOADED"}
    for name, status in names.items():
        api.add_server(name, ({"status": status, "vm_state": status.lower(), "host": "host1", "power_state": 4},))
    result = cli("server", "shelve", *names, "--offload", "--wait")
    assert result.code == 0, result.err
    assert {server["status"] for server in api.servers.values()} == {"SHELVED_OFFLOADED"}
    assert [sent for method, path, sent in api.requests if method == "POST"] == [
        {"shelve": None},
        {"shelveOffload": None},
    ]


def test_a_rebuild_sends_what_is_named_and_waits(api: ApiServer, cli: Cli, tmp_path: Path) -> None:
    api.add_server("one")
    image = api.add_image("new")["id"]
    (tmp_path / "script").write_text("#!/bin/sh\n")
    result = cli(
        "server", "rebuild", "one", "--image", "new", "--name", "two", "--property", "a=1", "--property", "b=2",
        "--key-name", "mine", "--user-data", str(tmp_path / "script"), "--password", "p", "--description", "d", "--hostname", "h",
        "--wait",
    )  # fmt: skip
    assert (result.code, result.out) == (0, "one: admin password made-up\n"), result.err
    assert next(sent for method, _, sent in api.requests if method == "POST") == {
        "rebuild": {
            "imageRef": image, "name": "two", "metadata": {"a": "1", "b": "2"}, "key_name": "mine", "adminPass": "p",
            "user_data": "IyEvYmluL3NoCg==", "description": "d", "hostname": "h",
        }
    }  # fmt: skip


def test_a_rebuild_takes_the_own_image_and_removes_key_and_user_data(api: ApiServer, cli: Cli) -> None:
    server = api.add_server("one")
    assert cli("server", "rebuild", "one", "--no-key-name", "--no-user-data").code == 0
    sent = {"imageRef": server["image"]["id"], "key_name": None, "user_data": None}
    assert api.requests[-1][2] == {"rebuild": sent}


def test_a_rescue_names_its_image_and_shows_no_password_that_no_guest_takes(api: ApiServer, cli: Cli) -> None:
    api.add_server("one")
    image = api.add_image("rescuer")["id"]
    result = cli("server", "rescue", "one", "--image", "rescuer")
    assert (result.code, result.out, result.err) == (0, "", "")
    assert api.requests[-1][2] == {"rescue": {"rescue_image_ref": image}}
    result = cli("server", "rescue", "one")
    assert (result.code, result.out) == (0, "")
    assert "the server gets that one about two minutes later" in result.err


def test_stop_with_one_unknown_name_stops_nothing(api: ApiServer, cli: Cli) -> None:
    api.add_server("one")
    result = cli("server", "stop", "one", "onee")
    assert result.code == 1
    assert "Nothing was changed." in result.err
    assert not [method for method, _, _ in api.requests if method == "POST"]


def test_a_stop_that_fails_says_why(api: ApiServer, cli: Cli) -> None:
    api.add_server("one")
    api.actions["os-stop"] = {"status": "ACTIVE", "fault": {"code": 500, "message": "Host host1 could not: busy."}}
    result = cli("server", "stop", "one", "--wait")
    assert result.code == 1
    assert "was not stopped, it is ACTIVE: Host host1 could not: busy." in result.err


def test_a_reboot_that_fails_says_so_although_the_guest_runs(api: ApiServer, cli: Cli) -> None:
    api.add_server("one")
    api.action_messages["reboot"] = "The server could not be rebooted. The hypervisor of the host could not do it."
    result = cli("server", "reboot", "one", "--wait")
    assert result.code == 1
    assert "was not rebooted, it is ACTIVE: The server could not be rebooted. The hypervisor of the host" in result.err
    # What failed before another action is not told of that one.
    assert cli("server", "pause", "one", "--wait").code == 0


def test_delete_with_one_unknown_name_deletes_nothing(api: ApiServer, cli: Cli) -> None:
    api.add_server("one")
    result = cli("server", "delete", "one", "onee")
    assert result.code == 1
    assert "no server with the name or ID 'onee'" in result.err
    assert "Nothing was deleted." in result.err
    assert not [method for method, _, _ in api.requests if method == "DELETE"]


def test_delete_repeated_after_a_lost_answer_is_no_error(api: ApiServer, cli: Cli) -> None:
    api.add_server("one")
    api.order("lost", method="DELETE")
    result = cli("server", "delete", "one", "--wait")
    assert result.code == 0, result.err
    assert not api.servers


def test_console_log_prints_all_or_the_last_lines(api: ApiServer, cli: Cli) -> None:
    uuid = api.add_server("web")["id"]
    api.consoles[uuid] = "one\ntwo\nthree"
    assert cli("server", "console", "log", "web").out == "one\ntwo\nthree\n"
    assert cli("server", "console", "log", "web", "--lines", "1").out == "three\n"


DIAGNOSIS = {
    "request_id": "req-1",
    "hosts": 3,
    "steps": [
        {"name": "placement", "before": 3, "after": 3, "lost": []},
        {
            "name": "RamFilter",
            "before": 3,
            "after": 2,
            "lost": [{"host": "host2", "node": "node2", "reason": "free memory 512 MB < requested 2048 MB"}],
        },
    ],
    "weighed": [
        {"host": "host1", "node": "host1", "weight": 1.5, "weights": {"ram": 1.0, "cpu": 0.5}},
        {"host": "host3", "node": "node3", "weight": 0.25, "weights": {"ram": 0.25}},
    ],
    "selected": [["host1", "host1"]],
    "error": None,
}


def test_explain_prints_filters_lost_hosts_and_weights(api: ApiServer, cli: Cli) -> None:
    uuid = api.add_server("web")["id"]
    api.diagnoses[uuid] = {**DIAGNOSIS, "instance_uuids": [uuid]}
    result = cli("server", "explain", "web")
    assert result.code == 0, result.err
    assert result.out.splitlines()[0] == "Server web: 3 hosts, chosen: host1."
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in result.out.splitlines() if "|" in line]
    assert ["RamFilter", "3", "2", "1"] in cells
    assert ["host2", "node2", "RamFilter", "free memory 512 MB < requested 2048 MB"] in cells
    assert ["host1", "host1", "1.5", "0.5", "1"] in cells
    assert ["host3", "node3", "0.25", "", "0.25"] in cells


def test_explain_as_json_is_the_whole_record(api: ApiServer, cli: Cli) -> None:
    uuid = api.add_server("web")["id"]
    api.diagnoses[uuid] = {**DIAGNOSIS, "instance_uuids": [uuid]}
    assert json.loads(cli("server", "explain", "web", "-f", "json").out) == api.diagnoses[uuid]


def test_explain_without_a_record_says_so(api: ApiServer, cli: Cli) -> None:
    api.add_server("web")
    result = cli("server", "explain", "web")
    assert result.code == 1
    assert "no record of a scheduler's decision on server web (ACTIVE)" in result.err
