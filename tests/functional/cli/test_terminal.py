"""What is different on a terminal: progress that rewrites itself, Ctrl-C, prompts, and text that must not act."""

from pathlib import Path

import pytest

from tests.fakes.faulty_api import FaultyApi
from tests.functional.api.conftest import Cloud
from tests.functional.cli.servers import BUILDS, CREATE, FAILS, NEVER_ENDS, NO_HOST, Reports, add_server, server_ids
from tests.functional.cli.terminal import Terminal
from tests.security.identities import login, with_users

WAIT = (*CREATE, "--wait")
UP_ONE = "\x1b[1A"


@pytest.fixture(autouse=True)
def catalogue(cloud: Cloud) -> None:
    cloud.with_catalogue()


@pytest.fixture
def api(faulty_api: FaultyApi) -> FaultyApi:
    return faulty_api


@pytest.fixture
def reports(cloud: Cloud, api: FaultyApi) -> Reports:
    return Reports(cloud, api)


def test_progress_is_one_line_rewritten_and_then_the_table(api: FaultyApi, reports: Reports) -> None:
    reports.of_builds = BUILDS
    with Terminal("--url", api.url, *WAIT) as terminal:
        assert terminal.wait() == 0, terminal.text
    progress, _, table = terminal.text.partition("+---")
    steps = progress.split(UP_ONE)
    assert len(steps) >= len(BUILDS)
    states = ["BUILD scheduling", "BUILD networking on host1", "BUILD spawning on host1", "ACTIVE on host1"]
    assert [next((s for s in states if s in step), "") for step in steps[: len(states)]] == states
    assert all(step.count("\n") == 1 for step in steps)
    assert "| ACTIVE" in table


def test_a_failed_build_ends_with_its_reason(api: FaultyApi, reports: Reports) -> None:
    reports.of_builds = FAILS
    with Terminal("--url", api.url, *WAIT) as terminal:
        assert terminal.wait() == 1
    assert NO_HOST in terminal.text.splitlines()[-1]


def test_very_many_servers_fit_on_the_screen(api: FaultyApi, reports: Reports) -> None:
    reports.of_builds = BUILDS
    with Terminal("--url", api.url, *WAIT, "--max", "30", "-f", "value", rows=10) as terminal:
        assert terminal.wait() == 0, terminal.text
    progress = terminal.text.split("\x1b[J")[:-1]
    assert max(step.count("\n") for step in progress) <= 8
    assert "BUILD 30" in terminal.text
    assert "ACTIVE 30" in terminal.text


def test_an_api_that_restarts_is_waited_for(cloud: Cloud, api: FaultyApi, reports: Reports) -> None:
    reports.of_builds = NEVER_ENDS
    with Terminal("--url", api.url, *WAIT) as terminal:
        terminal.read_until("BUILD scheduling")
        api.stop()
        terminal.read_until("Still waiting.")
        (server_id,) = server_ids(cloud)
        reports.go_on(server_id, BUILDS)
        api.start()
        assert terminal.wait() == 0, terminal.text
    assert "| ACTIVE" in terminal.text


def test_ctrl_c_says_that_the_build_goes_on(cloud: Cloud, api: FaultyApi, reports: Reports) -> None:
    reports.of_builds = NEVER_ENDS
    with Terminal("--url", api.url, *WAIT) as terminal:
        terminal.read_until("BUILD scheduling")
        terminal.interrupt()
        assert terminal.wait() == 130
    (uuid,) = server_ids(cloud)
    assert f"Stopped waiting: server {uuid} is still being built." in terminal.text
    assert f"'minova server show {uuid}'" in terminal.text
    assert "Traceback" not in terminal.text


def test_ctrl_c_in_a_console_log_that_is_followed(cloud: Cloud, api: FaultyApi) -> None:
    uuid = add_server(cloud, "web")
    cloud.consoles.texts[uuid] = "firmware\nbooting\n"
    words = ("server", "console", "log", "web", "--follow", "--lines", "1")
    with Terminal("--url", api.url, *words) as terminal:
        terminal.read_until("booting")
        cloud.consoles.texts[uuid] += "ready\n"
        terminal.read_until("ready")
        terminal.interrupt()
        assert terminal.wait() == 130
    assert "firmware" not in terminal.text
    assert terminal.text.count("booting") == 1
    assert "Traceback" not in terminal.text


def test_what_a_guest_writes_does_not_act_on_the_terminal(cloud: Cloud, api: FaultyApi) -> None:
    uuid = add_server(cloud, "web")
    cloud.consoles.texts[uuid] = "\x1b]0;title\x07\x1b[2Jlogin:\r\n"
    with Terminal("--url", api.url, "server", "console", "log", "web") as terminal:
        assert terminal.wait() == 0
    assert "login:" in terminal.text
    assert "\x1b" not in terminal.text
    with Terminal("--url", api.url, "server", "console", "log", "web", "--raw") as terminal:
        assert terminal.wait() == 0
    assert "\x1b[2Jlogin:" in terminal.text


def test_an_upload_shows_how_far_it_is(minova_url: str, tmp_path: Path) -> None:
    path = tmp_path / "guest.raw"
    path.write_bytes(bytes(3 << 20))
    words = ("image", "create", "big", "--file", str(path), "--disk-format", "raw")
    with Terminal("--url", minova_url, *words) as terminal:
        assert terminal.wait() == 0, terminal.text
    assert "Uploading: 3 of 3 MiB (100 %)" in terminal.text
    assert "active" in terminal.text


def test_the_password_is_asked_for_and_not_echoed(tmp_path: Path) -> None:
    (tmp_path / "users").mkdir()
    cloud = with_users(tmp_path / "users", password="s3cret")
    flavor = {"name": "m1.small", "ram": 1, "vcpus": 1, "disk": 1}
    admin = login("admin", "s3cret")
    assert cloud.ask("POST", "/v2.1/flavors", {"flavor": flavor}, headers=admin)[0] == 200
    with (
        FaultyApi(cloud.app) as api,
        Terminal("--url", api.url, "--username", "alice", "flavor", "list") as terminal,
    ):
        terminal.read_until("Password of alice: ")
        terminal.enter("s3cret\n")
        assert terminal.wait() == 0, terminal.text
    cloud.close()
    assert "m1.small" in terminal.text
    assert "s3cret" not in terminal.text
