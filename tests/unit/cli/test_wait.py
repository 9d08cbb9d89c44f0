"""How progress looks."""

import io
import re
from typing import Any

import pytest

from minova.cli.output.columns import printable
from minova.cli.wait import Progress, TerminalProgress, TimedOut, failures, wait_for_builds, wait_until_gone


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def server(name: str, status: str = "BUILD", task: str | None = None, host: str | None = None) -> dict[str, Any]:
    extended = {"OS-EXT-STS:task_state": task, "OS-EXT-SRV-ATTR:host": host}
    return {"id": f"id-{name}", "name": name, "status": status, **extended}


def test_plain_progress_says_each_change_once() -> None:
    out, clock = io.StringIO(), Clock()
    progress = Progress(out, clock)
    progress.show([server("a", task="scheduling"), server("b", task="scheduling")])
    clock.now += 1.25
    progress.show([server("a", task="scheduling"), server("b", task="spawning", host="h1")])
    clock.now += 10
    progress.show([server("a", "ACTIVE", host="h2"), server("b", task="spawning", host="h1")])
    assert out.getvalue().splitlines() == [
        "   0.0 s  a: BUILD scheduling",
        "   0.0 s  b: BUILD scheduling",
        "   1.2 s  b: BUILD spawning on h1",
        "  11.2 s  a: ACTIVE on h2",
    ]


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "8")


@pytest.mark.usefixtures("narrow")
def test_live_progress_goes_up_over_what_it_wrote() -> None:
    out = io.StringIO()
    progress = TerminalProgress(out, Clock())
    for task in ("scheduling", "spawning"):
        progress.show([server("web-1", task=task), server("web-2", task=task)])
    assert out.getvalue().count("\x1b[2A") == 1
    assert out.getvalue().count("\n") == 4


@pytest.mark.usefixtures("narrow")
def test_live_progress_never_wraps_and_never_scrolls() -> None:
    out = io.StringIO()
    TerminalProgress(out, Clock()).show([server("w" * 100 + str(number)) for number in range(50)])
    lines = re.sub(r"\x1b\[\d*[A-Z]|\r", "", out.getvalue()).split("\n")
    assert max(map(len, lines)) < 40
    assert out.getvalue().count("\n") <= 6
    assert "BUILD 50" in out.getvalue()
    assert all("BUILD" in line for line in lines[:-1])


def test_failures_are_told_with_their_reason() -> None:
    bad = {**server("bad", "ERROR"), "fault": {"code": 500, "message": "No valid host"}}
    odd = server("odd", "ERROR")
    assert failures([server("good", "ACTIVE"), bad, odd]) == [
        "Server bad (id-bad) failed: No valid host. See 'minova server explain id-bad'.",
        "Server odd (id-odd) failed: the API gives no reason. See 'minova server explain id-odd'.",
    ]


class Api:
    """An API with one server, which never goes."""

    def __init__(self, server: dict[str, Any]) -> None:
        self._server = server

    def without_retries(self) -> "Api":
        return self

    def get(self, _path: str) -> dict[str, Any]:
        return {"server": self._server}


@pytest.mark.parametrize(
    ("fault", "said"), [(None, r"\)$"), ({"message": "Host a could not: busy."}, "could not: busy$")]
)
def test_a_delete_that_takes_too_long_says_why(fault: dict[str, str] | None, said: str) -> None:
    stuck = {**server("web", "ACTIVE", "deleting", "a"), "OS-EXT-STS:vm_state": "active"}
    if fault is not None:
        stuck["fault"] = fault
    with pytest.raises(TimedOut, match=said):
        wait_until_gone(Api(stuck), stuck, Progress(io.StringIO()), timeout=0.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "task"), [("ACTIVE", None), ("ERROR", None), ("SHUTOFF", None), ("REBOOT", "rebooting")]
)
def test_a_build_has_ended_whatever_followed_it(status: str, task: str | None) -> None:
    answers = [server("web", task="spawning"), server("web", status, task)]
    built = wait_for_builds(lambda: [answers.pop(0)], [server("web")], Progress(io.StringIO()), timeout=60)
    assert ([built_server["status"] for built_server in built], answers) == ([status], [])


def test_names_do_not_act_on_the_terminal() -> None:
    assert printable("we\x1b[2Jb\n") == "we [2Jb "
