"""What is different on a terminal: progress that rewrites itself, Ctrl-C, prompts, and text that must not act."""

from pathlib import Path

import pytest

from minova.cli.commands.image import QCOW2_MAGIC
from tests.fakes.api_server import ApiServer
from tests.fakes.compute_api import BUILDS, FAILS, NEVER_ENDS, NO_HOST
from tests.functional.cli.terminal import Terminal

CREATE = ("server", "create", "web", "--flavor", "m1.small", "--image", "guest", "--wait")
UP_ONE = "\x1b[1A"


@pytest.fixture(autouse=True)
def catalogue(api: ApiServer) -> None:
    api.add_flavor("m1.small", "42")
    api.add_image("guest")


def test_progress_is_one_line_rewritten_and_then_the_table(api: ApiServer) -> None:
    api.script = BUILDS
    with Terminal("--url", api.url, *CREATE) as terminal:
        assert terminal.wait() == 0, terminal.text
    progress, _, table = terminal.text.partition("+---")
    steps = progress.split(UP_ONE)
    assert len(steps) >= len(BUILDS)
    states = ["BUILD scheduling", "BUILD networking on host1", "BUILD spawning on host1", "ACTIVE on host1"]
    assert [next((s for s in states if s in step), "") for step in steps[: len(states)]] == states
    assert all(step.count("\n") == 1 for step in steps)
    assert "| ACTIVE" in table


def test_a_failed_build_ends_with_its_reason(api: ApiServer) -> None:
    api.script = FAILS
    with Terminal("--url", api.url, *CREATE) as terminal:
        assert terminal.wait() == 1
    assert NO_HOST in terminal.text.splitlines()[-1]


def test_very_many_servers_fit_on_the_screen(api: ApiServer) -> None:
    api.script = BUILDS
    with Terminal("--url", api.url, *CREATE, "--max", "30", "-f", "value", rows=10) as terminal:
        assert terminal.wait() == 0, terminal.text
    progress = terminal.text.split("\x1b[J")[:-1]
    assert max(step.count("\n") for step in progress) <= 8
    assert "BUILD 30" in terminal.text
    assert "ACTIVE 30" in terminal.text


def test_an_api_that_restarts_is_waited_for(api: ApiServer) -> None:
    api.script = NEVER_ENDS
    with Terminal("--url", api.url, *CREATE) as terminal:
        terminal.read_until("BUILD scheduling")
        api.stop()
        terminal.read_until("Still waiting.")
        (uuid,) = api.servers
        api.rescript(uuid, BUILDS)
        api.start()
        assert terminal.wait() == 0, terminal.text
    assert "| ACTIVE" in terminal.text


def test_ctrl_c_says_that_the_build_goes_on(api: ApiServer) -> None:
    api.script = NEVER_ENDS
    with Terminal("--url", api.url, *CREATE) as terminal:
        terminal.read_until("BUILD scheduling")
        terminal.interrupt()
        assert terminal.wait() == 130
    (uuid,) = api.servers
    assert f"Stopped waiting: server {uuid} is still being built." in terminal.text
    assert f"'minova server show {uuid}'" in terminal.text
    assert "Traceback" not in terminal.text


def test_ctrl_c_in_a_console_log_that_is_followed(api: ApiServer) -> None:
    uuid = api.add_server("web")["id"]
    api.consoles[uuid] = "firmware\nbooting\n"
    words = ("server", "console", "log", "web", "--follow", "--lines", "1")
    with Terminal("--url", api.url, *words) as terminal:
        terminal.read_until("booting")
        api.consoles[uuid] += "ready\n"
        terminal.read_until("ready")
        terminal.interrupt()
        assert terminal.wait() == 130
    assert "firmware" not in terminal.text
    assert terminal.text.count("booting") == 1
    assert "Traceback" not in terminal.text


def test_what_a_guest_writes_does_not_act_on_the_terminal(api: ApiServer) -> None:
    uuid = api.add_server("web")["id"]
    api.consoles[uuid] = "\x1b]0;title\x07\x1b[2Jlogin:\r\n"
    with Terminal("--url", api.url, "server", "console", "log", "web") as terminal:
        assert terminal.wait() == 0
    assert "login:" in terminal.text
    assert "\x1b" not in terminal.text
    with Terminal("--url", api.url, "server", "console", "log", "web", "--raw") as terminal:
        assert terminal.wait() == 0
    assert "\x1b[2Jlogin:" in terminal.text


def test_an_upload_shows_how_far_it_is(api: ApiServer, tmp_path: Path) -> None:
    path = tmp_path / "guest.qcow2"
    path.write_bytes(QCOW2_MAGIC + bytes(3 << 20))
    words = ("image", "create", "big", "--file", str(path), "--disk-format", "qcow2")
    with Terminal("--url", api.url, *words) as terminal:
        assert terminal.wait() == 0, terminal.text
    assert "Uploading: 3 of 3 MiB (100 %)" in terminal.text
    assert "active" in terminal.text


def test_the_password_is_asked_for_and_not_echoed(api: ApiServer) -> None:
    api.password = ("alice", "s3cret")
    with Terminal("--url", api.url, "--username", "alice", "flavor", "list") as terminal:
        terminal.read_until("Password of alice: ")
        terminal.enter("s3cret\n")
        assert terminal.wait() == 0, terminal.text
    assert "m1.small" in terminal.text
    assert "s3cret" not in terminal.text
