"""A stolen host sends marks and histories of the cloud that it has made up: the cloud goes on, and the log names the host."""

import logging
from contextlib import nullcontext

import msgspec
import pytest

from minova import errors
from minova.conductor.tasks.history import CONFIRM
from minova.db.models import Cloud
from minova.db.recovery import cloud
from minova.objects.hosts.cloud import CounterMark, WitnessRecord, learned
from minova.objects.hosts.service import Service
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.scheduler.cloud import named

LOGGER = "minova.conductor.tasks.history"


def real(harness: ConductorHarness) -> WitnessRecord:
    state = harness.conductor.worker.history.state
    assert state is not None
    return learned(None, state)


def forgeries(seen: WitnessRecord) -> list[WitnessRecord]:
    mark = seen.marks[0]
    return [
        msgspec.structs.replace(seen, marks=(CounterMark("made-up", 1, mark.at),)),
        msgspec.structs.replace(seen, marks=(msgspec.structs.replace(mark, number=mark.number + 10**6),)),
        msgspec.structs.replace(seen, history=named("history")),
        WitnessRecord(uuid=seen.uuid, history=named("history")),
        WitnessRecord(uuid=seen.uuid, history="\0\ud800", marks=(CounterMark("\0\ud800", 1, mark.at, "\ud800"),)),
        msgspec.structs.replace(seen, uuid=named("cloud")),
    ]


# The forgery whose texts are none, which no message of a host may have.
NO_TEXT = 4


def go_on(harness: ConductorHarness) -> None:
    """Longer than a doubt must last."""
    for _ in range(4):
        harness.tick(harness.conductor, CONFIRM)


def assert_works(harness: ConductorHarness) -> None:
    with harness.db.read() as session:
        row = cloud.record(session, harness.db.now())
    assert row is not None
    assert (row.safe_since, harness.conductor.safe_mode.reason) == (None, None)
    assert harness.create()


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("way", ["registration", "heartbeat", "API"])
def test_a_forgery_changes_nothing(harness: ConductorHarness, number: int, way: str) -> None:
    forged = forgeries(real(harness))[number]
    for _ in range(3):
        with pytest.raises(errors.BadRequest) if number == NO_TEXT and way != "API" else nullcontext():
            if way == "registration":
                service = Service(uuid=named("a"), host="a", binary="minova-compute", topic="compute", seen=forged)
                answer = harness.conductor.register_service(CTX, service=service)
                assert answer.cloud is not None
            elif way == "heartbeat":
                harness.conductor.service_has_seen(CTX, host="a", binary="minova-compute", seen=forged)
            else:
                harness.conductor.api_has_seen(CTX, place="controller", seen=forged)
        go_on(harness)
    assert_works(harness)


def test_the_log_names_the_host_once(harness: ConductorHarness, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, LOGGER)
    seen = real(harness)
    forged = forgeries(seen)[0]
    for sent in (forged, forged, seen, forged):
        harness.conductor.service_has_seen(CTX, host="a", binary="minova-compute", seen=sent)
    for binary in ("made up", "made\nup"):
        harness.conductor.service_has_seen(CTX, host="a", binary=binary, seen=forged)
    said = [record.getMessage() for record in caplog.records if "no evidence" in record.getMessage()]
    assert [text.split(" has seen ")[0] for text in said] == [
        "What minova-compute of a",
        "What minova-compute of a",
        "What a service of a",
    ]


def test_a_forged_mark_does_not_blind_conductors(harness: ConductorHarness) -> None:
    """What is known of a counter comes from sealed marks: else a forged number would let a later loss pass."""
    own = real(harness).marks[0]
    harness.tick(harness.start("two"))
    harness.tick(harness.conductor, 1)
    seen = real(harness)
    mark = next(mark for mark in seen.marks if mark.counter != own.counter)
    forged = msgspec.structs.replace(mark, number=mark.number + 10**6)
    harness.conductor.api_has_seen(CTX, place="controller", seen=msgspec.structs.replace(seen, marks=(mark, forged)))
    harness.tick(harness.conductor, 1)
    assert harness.conductor.worker.history._known[mark.counter] == mark.number


def test_no_answer_shows_the_secret(harness: ConductorHarness) -> None:
    with harness.db.read() as session:
        row = session.get(Cloud, 1)
        assert row is not None
        secret = row.mark_secret
    assert len(bytes.fromhex(secret)) == 32
    service = Service(uuid=named("a"), host="a", binary="minova-compute", topic="compute", seen=real(harness))
    answers = (
        harness.conductor.register_service(CTX, service=service),
        harness.conductor.heartbeat(CTX, host="a", binary="minova-compute"),
        harness.conductor.service_has_seen(CTX, host="a", binary="minova-compute", seen=real(harness)),
    )
    for answer in answers:
        text = msgspec.json.encode(answer).decode()
        assert real(harness).history in text
        assert secret not in text
