"""Builds that end at the same time are reported together."""

from minova import errors
from minova.batch_queue import Ticket
from minova.compute.instances.report_queue import Report
from minova.objects.build import BuildReport
from tests.fakes.computes import CTX, FLAVOR, HOST, NODE, Compute

Asked = Ticket[Report, None]


def ended_builds(compute: Compute, *uuids: str) -> list[Asked]:
    """Tickets of builds whose claims stand."""
    tickets = []
    for uuid in uuids:
        message = compute.conductor.commit_build(uuid, HOST, NODE, FLAVOR)
        tracker = compute.manager._nodes.tracker(NODE)
        tracker.instance_claim(CTX, message.instance, 1, message.limits)
        report = BuildReport(ctx=CTX, instance_uuid=uuid, attempt=1, power_state=1)
        tickets.append(Asked(Report(report, tracker)))
    compute.conductor.calls.clear()
    return tickets


def outcomes(compute: Compute, tickets: list[Asked]) -> list[Exception | None]:
    compute.manager._builder._reports.send(tickets)
    return [ticket.outcome() for ticket in tickets]


def test_builds_that_end_together_are_one_message() -> None:
    compute = Compute()
    compute.start()
    tickets = ended_builds(compute, "i1", "i2", "i3")
    assert outcomes(compute, tickets) == [None, None, None]
    assert compute.conductor.calls == ["report_builds"]
    assert {one.vm_state for one in compute.conductor.instances.values()} == {"active"}


def test_a_stale_build_does_not_fail_its_neighbours() -> None:
    compute = Compute()
    compute.start()
    tickets = ended_builds(compute, "i1", "i2", "i3")
    compute.conductor.give_up("i2")
    first, second, third = outcomes(compute, tickets)
    assert (first, third) == (None, None)
    assert isinstance(second, errors.StaleAttempt)


def test_an_older_conductor_gets_reports_one_by_one() -> None:
    def too_old(*_: object, **__: object) -> None:
        raise errors.PeerTooOld("report_builds needs conductor 1.6")

    compute = Compute()
    compute.start()
    compute.conductor.report_builds = too_old  # type: ignore[method-assign,assignment]
    tickets = ended_builds(compute, "i1", "i2")
    assert outcomes(compute, tickets) == [None, None]
    assert compute.conductor.calls == ["build_succeeded", "build_succeeded"]
