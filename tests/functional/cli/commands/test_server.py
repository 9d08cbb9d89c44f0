"""`minova server ...`."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from minova.objects.requests.diagnosis import Diagnosis, FilterStep, LostHost, WeighedHost
from tests.fakes.faulty_api import FaultyApi
from tests.fakes.row_conductor import now
from tests.functional.api.conftest import Cloud
from tests.functional.cli.conftest import Cli, json_output, succeed
from tests.functional.cli.hosts import add_node, add_service
from tests.functional.cli.servers import (
    ACTIVE,
    BUILDS,
    CREATE,
    FAILS,
    GONE,
    NEVER_ENDS,
    NO_HOST,
    Report,
    Reports,
    add_network,
    add_server,
    server_names,
    statuses,
)

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJrSPYIkXdQEGZB8MnEzFIVTGVL2KZ2rgSRcfbHqTQ3u"


@pytest.fixture(autouse=True)
def catalogue(cloud: Cloud) -> None:
    cloud.with_catalogue()


@pytest.fixture(autouse=True)
def reports(cloud: Cloud, api: FaultyApi) -> Reports:
    return Reports(cloud, api)


@pytest.fixture
def api(faulty_api: FaultyApi) -> FaultyApi:
    return faulty_api


@pytest.fixture
def cli(faulty_cli: Cli) -> Cli:
    return faulty_cli


def test_create_shows_the_server_with_its_names(cloud: Cloud, cli: Cli) -> None:
    shown = json_output(cli(*CREATE, "--config-drive", "-f", "json"))
    (server,) = cloud.get("/v2.1/servers")["servers"]
    assert (shown["id"], shown["name"], shown["status"]) == (server["id"], "web", "ACTIVE")
    assert shown["flavor"] == f"tiny ({cloud.server['flavorRef']})"
    assert shown["image"] == f"guest ({cloud.server['imageRef']})"
    assert shown["adminPass"] == cloud.conductor.requests[-1].admin_password


def test_create_says_all_that_was_asked(cloud: Cloud, api: FaultyApi, cli: Cli, tmp_path: Path) -> None:
    add_service(cloud, 1, "host7")
    key = {"name": "mine", "public_key": KEY}
    assert cloud.ask("POST", "/v2.1/os-keypairs", {"keypair": key})[0] in {200, 201}
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
    assert body == {
        "server": {
            "name": "web",
            "min_count": 1,
            "max_count": 1,
            "metadata": {"a": "1", "b": "x=y"},
            "flavorRef": cloud.server["flavorRef"],
            "imageRef": cloud.server["imageRef"],
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
    cloud: Cloud, api: FaultyApi, cli: Cli, faults: tuple[str, ...]
) -> None:
    api.order(*faults)
    result = cli(*CREATE)
    assert result.code == 0, result.err
    assert server_names(cloud) == ["web"]
    assert sum(method == "POST" for method, _, _ in api.requests) == len(faults) + 1


def test_wait_without_a_terminal_prints_a_line_for_each_change_then_the_table(reports: Reports, cli: Cli) -> None:
    reports.of_builds = BUILDS
    result = cli(*CREATE, "--wait")
    assert result.code == 0, result.err
    changes = [line.partition("web: ")[2] for line in result.err.splitlines()]
    assert changes == ["BUILD scheduling", "BUILD networking on host1", "BUILD spawning on host1", "ACTIVE on host1"]
    assert "| ACTIVE" in result.out


def test_wait_for_a_build_that_fails_ends_with_the_reason_and_exit_code_1(
    cloud: Cloud, api: FaultyApi, reports: Reports, cli: Cli
) -> None:
    reports.of_builds = FAILS
    result = cli(*CREATE, "--wait")
    uuid = cloud.get("/v2.1/servers")["servers"][0]["id"]
    assert result.code == 1
    assert "| ERROR" in result.out
    assert result.err.splitlines()[-1] == (
        f"minova: Server web ({uuid}) failed: {NO_HOST} See 'minova server explain {uuid}'."
    )


def test_wait_gives_up_at_its_timeout_and_says_that_the_build_goes_on(reports: Reports, cli: Cli) -> None:
    reports.of_builds = NEVER_ENDS
    result = cli(*CREATE, "--wait", "--timeout", "0.3")
    assert result.code == 1
    assert "Waited 0.3 s: web is BUILD scheduling" in result.err
    assert "still being built" in result.err


def test_wait_survives_an_api_that_is_busy_for_a_while(api: FaultyApi, reports: Reports, cli: Cli) -> None:
    reports.of_builds = BUILDS
    api.order("busy", "lost", method="GET")
    result = cli(*CREATE, "--wait")
    assert result.code == 0, result.err


def test_wait_for_a_server_that_is_deleted_meanwhile(reports: Reports, cli: Cli) -> None:
    reports.of_builds = (*NEVER_ENDS, GONE)
    result = cli(*CREATE, "--wait")
    assert result.code == 1
    assert "was deleted while it was being built" in result.err


def test_several_servers_are_a_list_in_the_order_of_their_numbers(reports: Reports, cli: Cli) -> None:
    reports.of_builds = BUILDS
    result = cli(*CREATE, "--min", "2", "--max", "11", "--wait", "-f", "json")
    assert result.code == 0, result.err
    assert [row["Name"] for row in json.loads(result.out)] == [f"web-{number}" for number in range(1, 12)]
    assert {row["Status"] for row in json.loads(result.out)} == {"ACTIVE"}


def test_of_several_that_fail_each_has_its_reason(reports: Reports, cli: Cli) -> None:
    reports.of_builds = FAILS
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
def test_bad_create_says_what_is_wrong_and_makes_nothing(cloud: Cloud, api: FaultyApi, cli: Cli, case: str) -> None:
    words, code, message = BAD_CREATE[case]
    result = cli(*CREATE, *words)
    assert result.code == code
    assert message in result.err
    assert "Traceback" not in result.err
    assert server_names(cloud) == []


def test_an_ambiguous_name_lists_the_ids(cloud: Cloud, api: FaultyApi, cli: Cli) -> None:
    ids = [cloud.make_image("twin", data=None)["id"] for _ in range(2)]
    result = cli(*CREATE, "--image", "twin")
    assert result.code == 1
    assert result.err.startswith("minova: 2 images have the name 'twin'. Say which by ID: ")
    assert sorted(result.err.strip().partition("by ID: ")[2].split(", ")) == sorted(ids)


def test_list_pages_through_all(cloud: Cloud, api: FaultyApi, cli: Cli) -> None:
    cloud.conf.set_override("max_limit", 2, group="api")
    for number in range(5):
        add_server(cloud, f"s{number}")
    result = cli("server", "list", "-f", "value", "-c", "Name")
    assert result.out.split() == ["s4", "s3", "s2", "s1", "s0"]
    assert len([path for _, path, _ in api.requests if path.startswith("/v2.1/servers/detail")]) == 3


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
def test_list_takes_what_is_asked(
    cloud: Cloud, api: FaultyApi, cli: Cli, words: tuple[str, ...], names: list[str]
) -> None:
    add_server(cloud, "a1")
    add_server(cloud, "b1", FAILS[-1])
    add_server(cloud, "b2")
    result = cli("server", "list", *words, "-f", "value", "-c", "Name")
    assert (result.code, result.out.split()) == (0, names), result.err


@pytest.mark.parametrize("form", ["table", "json", "csv", "value", "yaml"])
def test_list_long_in_every_form(cloud: Cloud, api: FaultyApi, cli: Cli, form: str) -> None:
    add_server(
        cloud,
        "web",
        networks=[{"uuid": add_network(cloud, "net", "10.0.0.0/24"), "fixed_ip": "10.0.0.5"}],
        metadata={"a": "1"},
    )
    result = cli("server", "list", "--long", "-f", form)
    assert result.code == 0, result.err
    assert "10.0.0.5" in result.out
    assert "tiny" in result.out


@pytest.mark.parametrize("form", ["table", "json", "shell", "value", "yaml"])
def test_show_in_every_form(cloud: Cloud, api: FaultyApi, cli: Cli, form: str) -> None:
    add_server(cloud, "web", FAILS[-1])
    result = cli("server", "show", "web", "-f", form)
    assert result.code == 0, result.err
    assert NO_HOST in result.out


@pytest.mark.parametrize(
    ("state", "is_shown"),
    [({"task_state": "rebuilding"}, True), ({"task_state": "migrating"}, True), ({"vm_state": "paused"}, False)],
    ids=str,
)
def test_progress_is_shown_where_there_may_be_some(
    cloud: Cloud, api: FaultyApi, cli: Cli, state: Report, is_shown: bool
) -> None:
    add_server(cloud, "web", {**state, "progress": 40})
    shown = json.loads(cli("server", "show", "web", "-f", "json").out)
    assert shown.get("progress") == (40 if is_shown else None)


def test_the_power_state_is_a_word_for_people_and_a_number_for_programs(cloud: Cloud, api: FaultyApi, cli: Cli) -> None:
    add_server(cloud, "web")
    assert "| Running" in cli("server", "show", "web").out
    assert json.loads(cli("server", "show", "web", "-f", "json").out)["OS-EXT-STS:power_state"] == 1
    assert json.loads(cli("server", "list", "--long", "-f", "json").out)[0]["Power State"] == 1


def test_a_server_whose_flavor_and_image_are_gone_is_shown_all_the_same(cloud: Cloud, api: FaultyApi, cli: Cli) -> None:
    flavor, image = cloud.make_flavor("old", id="old-flavor"), cloud.make_image("old")
    add_server(cloud, "web", flavorRef=flavor["id"], imageRef=image["id"])
    assert cloud.ask("DELETE", "/v2.1/flavors/old-flavor")[0] == 202
    assert cloud.ask("DELETE", f"/v2/images/{image['id']}")[0] == 204
    for words in (("server", "show", "web"), ("server", "list")):
        result = cli(*words)
        assert result.code == 0, result.err
        assert "old-flavor" in result.out
        assert image["id"] in result.out


def test_a_name_wins_nothing_over_an_id_and_an_id_is_found_at_once(cloud: Cloud, api: FaultyApi, cli: Cli) -> None:
    server_id = add_server(cloud, "web")
    add_server(cloud, server_id)
    assert json.loads(cli("server", "show", server_id, "-f", "json").out)["name"] == "web"


@pytest.mark.parametrize("name", ["with space", "ä.b", "(x", "a&b=c#d", "s", "show"])
def test_odd_names_are_found(cloud: Cloud, api: FaultyApi, cli: Cli, name: str) -> None:
    uuid = add_server(cloud, name)
    cloud.consoles.texts[uuid] = "hello\n"
    assert uuid in cli("server", "show", name).out
    assert cli("server", "console", "log", "show", name).out == "hello\n"


def test_delete_takes_names_and_ids_and_waits(cloud: Cloud, api: FaultyApi, cli: Cli) -> None:
    add_server(cloud, "one")
    two = add_server(cloud, "two")
    add_server(cloud, "keep")
    result = cli("server", "delete", "one", two, "one", "--wait")
    assert result.code == 0, result.err
    assert server_names(cloud) == ["keep"]


STATES = {
    "start": "stopped",
    "unpause": "paused",
    "resume": "suspended",
    "unrescue": "rescued",
    "unshelve": "shelved_offloaded",
    "resize confirm": "resized",
    "resize revert": "resized",
    "restore": "soft-delete",
}
HOSTLESS = {"host": None, "node": None}


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
        (["unshelve", "--availability-zone", "nova"], {"unshelve": {"availability_zone": "nova"}}, "ACTIVE"),
        (
            ["unshelve", "--no-availability-zone", "--host", "host2"],
            {"unshelve": {"availability_zone": None, "host": "host2"}},
            "ACTIVE",
        ),
        (["resize", "--flavor", "m1.big"], {"resize": {"flavorRef": "1"}}, "VERIFY_RESIZE"),
        (["resize", "confirm"], {"confirmResize": None}, "ACTIVE"),
        (["resize", "revert"], {"revertResize": None}, "ACTIVE"),
        (["migrate"], {"migrate": None}, "VERIFY_RESIZE"),
        (["migrate", "--host", "host2"], {"migrate": {"host": "host2"}}, "VERIFY_RESIZE"),
        (["restore"], {"restore": None}, "ACTIVE"),
        (["dump", "create"], {"trigger_crash_dump": None}, "ACTIVE"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_actions_take_names_and_ids_and_wait(
    cloud: Cloud, api: FaultyApi, cli: Cli, verb: list[str], body: Any, status: str
) -> None:
    cloud.make_flavor("m1.big", id="1", ram=256)
    for number in (1, 2):
        add_service(cloud, number, f"host{number}")
        add_node(cloud, number, f"host{number}", f"node{number}")
    state = next((state for words, state in STATES.items() if words in {verb[0], " ".join(verb)}), "active")
    columns = {"vm_state": state, **(HOSTLESS if state == "shelved_offloaded" else {})}
    add_server(cloud, "one", columns)
    two = add_server(cloud, "two", columns)
    result = cli("server", *verb, "one", two, "one", "--wait")
    assert result.code == 0, result.err
    assert statuses(cloud) == {status}
    assert [sent for method, path, sent in api.requests if method == "POST"] == [body] * 2
    assert len(cloud.conductor.actions) == 2


@pytest.mark.parametrize(
    ("verb", "meanwhile"),
    [
        (["reboot"], "REBOOT rebooting"),
        (["rebuild"], "REBUILD rebuilding"),
        (["stop"], "ACTIVE powering-off"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_action_is_waited_for_whatever_the_status_is_meanwhile(
    cloud: Cloud, api: FaultyApi, cli: Cli, verb: list[str], meanwhile: str
) -> None:
    add_server(cloud, "one")
    result = cli("server", *verb, "one", "--wait")
    assert result.code == 0, result.err
    assert [line.partition("one: ")[2] for line in result.err.splitlines()] == [
        f"{meanwhile} on host1",
        f"{statuses(cloud).pop()} on host1",
    ]


def test_a_shelve_may_go_on_with_an_offload(cloud: Cloud, api: FaultyApi, cli: Cli) -> None:
    """Of what is shelved and still on its host, also from before; nothing that is done is asked for again."""
    names = {"running": "active", "shelved": "shelved", "gone": "shelved_offloaded"}
    for name, state in names.items():
        add_server(cloud, name, {"vm_state": state})
    result = cli("server", "shelve", *names, "--offload", "--wait")
    assert result.code == 0, result.err
    assert statuses(cloud) == {"SHELVED_OFFLOADED"}
    assert [sent for method, path, sent in api.requests if method == "POST"] == [
        {"shelve": None},
        {"shelveOffload": None},
    ]


def test_a_rebuild_sends_what_is_named_and_waits(cloud: Cloud, api: FaultyApi, cli: Cli, tmp_path: Path) -> None:
    add_server(cloud, "one")
    image = cloud.make_image("new")["id"]
    assert cloud.ask("POST", "/v2.1/os-keypairs", {"keypair": {"name": "mine", "public_key": KEY}})[0] in {200, 201}
    (tmp_path / "script").write_text("#!/bin/sh\n")
    result = cli(
        "server", "rebuild", "one", "--image", "new", "--name", "two", "--property", "a=1", "--property", "b=2",
        "--key-name", "mine", "--user-data", str(tmp_path / "script"), "--password", "made-up", "--description", "d", "--hostname", "hh",
        "--wait",
    )  # fmt: skip
    assert (result.code, result.out) == (0, "one: admin password made-up\n"), result.err
    assert next(sent for method, _, sent in api.requests if method == "POST") == {
        "rebuild": {
            "imageRef": image, "name": "two", "metadata": {"a": "1", "b": "2"}, "key_name": "mine", "adminPass": "made-up",
            "user_data": "IyEvYmluL3NoCg==", "description": "d", "hostname": "hh",
        }
    }  # fmt: skip


def test_a_rebuild_takes_the_own_image_and_removes_key_and_user_data(cloud: Cloud, api: FaultyApi, cli: Cli) -> None:
    add_server(cloud, "one")
    assert cli("server", "rebuild", "one", "--no-key-name", "--no-user-data").code == 0
    sent = {"imageRef": cloud.server["imageRef"], "key_name": None, "user_data": None}
    assert api.requests[-1][2] == {"rebuild": sent}


def test_a_rescue_names_its_image_and_shows_no_password_that_no_guest_takes(
    cloud: Cloud, api: FaultyApi, cli: Cli
) -> None:
    add_server(cloud, "one")
    image = cloud.make_image("rescuer")["id"]
    result = cli("server", "rescue", "one", "--image", "rescuer")
    assert (result.code, result.out, result.err) == (0, "", "")
    assert api.requests[-1][2] == {"rescue": {"rescue_image_ref": image}}
    cloud.conductor.edit(cloud.get("/v2.1/servers")["servers"][0]["id"], **ACTIVE)
    result = cli("server", "rescue", "one")
    assert (result.code, result.out) == (0, "")
    assert "the server gets that one about two minutes later" in result.err


def test_stop_with_one_unknown_name_stops_nothing(cloud: Cloud, api: FaultyApi, cli: Cli) -> None:
    add_server(cloud, "one")
    result = cli("server", "stop", "one", "onee")
    assert result.code == 1
    assert "Nothing was changed." in result.err
    assert not [method for method, _, _ in api.requests if method == "POST"]


def test_a_stop_that_fails_says_why(cloud: Cloud, reports: Reports, cli: Cli) -> None:
    add_server(cloud, "one")
    reports.of_actions["stop"], reports.failures["stop"] = ACTIVE, "GuestBusy"
    result = cli("server", "stop", "one", "--wait")
    assert result.code == 1
    assert "was not stopped, it is ACTIVE: " in result.err
    assert "Another operation on the guest has not ended yet." in result.err


def test_a_reboot_that_fails_says_so_although_the_guest_runs(cloud: Cloud, reports: Reports, cli: Cli) -> None:
    add_server(cloud, "one")
    reports.failures["reboot_soft"] = "HypervisorError"
    result = cli("server", "reboot", "one", "--wait")
    assert result.code == 1
    assert "was not rebooted, it is ACTIVE: The hypervisor of the host could not do it." in result.err
    # What failed before another action is not told of that one.
    assert cli("server", "pause", "one", "--wait").code == 0


def test_delete_with_one_unknown_name_deletes_nothing(cloud: Cloud, api: FaultyApi, cli: Cli) -> None:
    add_server(cloud, "one")
    result = cli("server", "delete", "one", "onee")
    assert result.code == 1
    assert "no server with the name or ID 'onee'" in result.err
    assert "Nothing was deleted." in result.err
    assert not [method for method, _, _ in api.requests if method == "DELETE"]


def test_delete_repeated_after_a_lost_answer_is_no_error(cloud: Cloud, api: FaultyApi, cli: Cli) -> None:
    add_server(cloud, "one")
    api.order("lost", method="DELETE")
    result = cli("server", "delete", "one", "--wait")
    assert result.code == 0, result.err
    assert server_names(cloud) == []


def test_console_log_prints_all_or_the_last_lines(cloud: Cloud, api: FaultyApi, cli: Cli) -> None:
    uuid = add_server(cloud, "web")
    cloud.consoles.texts[uuid] = "one\ntwo\nthree"
    assert cli("server", "console", "log", "web").out == "one\ntwo\nthree\n"
    succeed(cli("server", "console", "log", "web", "--lines", "1"))
    assert [asked[-1] for asked in cloud.consoles.asked] == [None, 1]


def diagnosis_of(server_id: str) -> Diagnosis:
    lost = LostHost(host="host2", node="node2", reason="free memory 512 MB < requested 2048 MB")
    return Diagnosis(
        request_id="req-1",
        instance_uuids=(server_id,),
        hosts=3,
        steps=(
            FilterStep(name="placement", before=3, after=3, lost=()),
            FilterStep(name="RamFilter", before=3, after=2, lost=(lost,)),
        ),
        weighed=(
            WeighedHost(host="host1", node="host1", weight=1.5, weights={"ram": 1.0, "cpu": 0.5}),
            WeighedHost(host="host3", node="node3", weight=0.25, weights={"ram": 0.25}),
        ),
        selected=(("host1", "host1"),),
    )


def test_explain_prints_filters_lost_hosts_and_weights(cloud: Cloud, api: FaultyApi, cli: Cli) -> None:
    uuid = add_server(cloud, "web")
    cloud.conductor.add_diagnosis([uuid], diagnosis_of(uuid), now())
    result = cli("server", "explain", "web")
    assert result.code == 0, result.err
    assert result.out.splitlines()[0] == "Server web: 3 hosts, chosen: host1."
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in result.out.splitlines() if "|" in line]
    assert ["RamFilter", "3", "2", "1"] in cells
    assert ["host2", "node2", "RamFilter", "free memory 512 MB < requested 2048 MB"] in cells
    assert ["host1", "host1", "1.5", "0.5", "1"] in cells
    assert ["host3", "node3", "0.25", "", "0.25"] in cells


def test_explain_as_json_is_the_whole_record(cloud: Cloud, api: FaultyApi, cli: Cli) -> None:
    uuid = add_server(cloud, "web")
    cloud.conductor.add_diagnosis([uuid], diagnosis_of(uuid), now())
    shown = json_output(cli("server", "explain", "web", "-f", "json"))
    assert shown == cloud.get(f"/v2.1/servers/{uuid}/diagnosis")["diagnosis"]
    assert shown["steps"] == msgspec.json.decode(msgspec.json.encode(diagnosis_of(uuid).steps))


def test_explain_without_a_record_says_so(cloud: Cloud, api: FaultyApi, cli: Cli) -> None:
    add_server(cloud, "web")
    result = cli("server", "explain", "web")
    assert result.code == 1
    assert "no record of a scheduler's decision on server web (ACTIVE)" in result.err
