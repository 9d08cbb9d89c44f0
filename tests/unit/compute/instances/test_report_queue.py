"""Builds that end at the same time are reported together."""

from minova import errors
from minova.compute.instances.report_queue import QueuedReport
from minova.concurrency.batch_queue import QueuedRequest
from minova.objects.servers.build import BuildReport
from tests.fakes.computes import CTX, FLAVOR, HOST, NODE, Compute

Asked = QueuedRequest[QueuedReport, None]


def ended_builds(compute: Compute, *uuids: str) -> list[Asked]:
    """Requests of builds whose claims stand."""
    queued = []
    for uuid in uuids:
        message = compute.conductor.commit_build(uuid, HOST, NODE, FLAVOR)
        tracker = compute.manager.collaborators.nodes.tracker(NODE)
        tracker.instance_claim(CTX, message.instance, 1, message.limits)
        report = BuildReport(ctx=CTX, instance_uuid=uuid, attempt=1, power_state=1)
        queued.append(Asked(QueuedReport(report, tracker)))
    compute.conductor.calls.clear()
    return queued


def outcomes(compute: Compute, queued: list[Asked]) -> list[Exception | None]:
    compute.manager.collaborators.builder._reports.send(queued)
    return [entry.outcome() for entry in queued]


def test_builds_that_end_together_are_one_message() -> None:
    compute = Compute()
    compute.start()
    queued = ended_builds(compute, "i1", "i2", "i3")
    assert outcomes(compute, queued) == [None, None, None]
    assert compute.conductor.calls == ["report_builds"]
    assert {instance.vm_state for instance in compute.conductor.instances.values()} == {"active"}


def test_a_stale_build_does_not_fail_its_neighbours() -> None:
    compute = Compute()
    compute.start()
    queued = ended_builds(compute, "i1", "i2", "i3")
    compute.conductor.give_up("i2")
    first, second, third = outcomes(compute, queued)
    assert (first, third) == (None, None)
    assert isinstance(second, errors.StaleAttempt)


def test_an_older_conductor_gets_reports_one_by_one() -> None:
    def too_old(*_: object, **__: object) -> None:
        raise errors.PeerTooOld("report_builds needs conductor 1.6")

    compute = Compute()
    compute.start()
    compute.conductor.report_builds = too_old  # type: ignore[method-assign,assignment]
    queued = ended_builds(compute, "i1", "i2")
    assert outcomes(compute, queued) == [None, None]
    assert compute.conductor.calls == ["build_succeeded", "build_succeeded"]
