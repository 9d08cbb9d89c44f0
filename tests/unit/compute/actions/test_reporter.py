"""Reports on server actions."""

from typing import Any

import pytest

from minova import errors
from minova.compute.actions.reporter import ActionReporter
from minova.compute.actions.results import Result
from minova.context import RequestContext, service_context

CTX = service_context("req-own")
RESULT = Result(instance_uuid="i", action_id=7, power_state=1, kind="DiskFull", forced=True, kept_disks=True)
# The arguments that conductors of release 0.1.0 do not know.
NEWER = {"request_id", "forced", "hardware", "agent_reason", "kept_disks"}


class Recorder:
    """A conductor that notes what it gets."""

    def __init__(self, *, is_older: bool) -> None:
        self._is_older = is_older
        self.reports: list[dict[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        def receive(ctx: RequestContext, **report: Any) -> None:
            if self._is_older and NEWER & report.keys():
                raise errors.PeerTooOld(name)
            self.reports.append(report)

        return receive


@pytest.mark.parametrize("is_older", [False, True])
def test_each_report_names_its_request_to_a_conductor_that_knows_requests(is_older: bool) -> None:
    conductor: Any = Recorder(is_older=is_older)
    reporter = ActionReporter("a", conductor)
    reporter.begin(CTX, "i", 7)
    reporter.progressed(CTX, "i", 7, "stopping")
    reporter.succeeded(CTX, RESULT, 1)
    reporter.failed(CTX, RESULT, "no space left")
    assert len(conductor.reports) == 4
    for report in conductor.reports:
        assert (report["instance_uuid"], report["action_id"], report["host"]) == ("i", 7, "a")
        assert report.get("request_id") == (None if is_older else "req-own")
