"""A compute waited for a broker that was away without a word of its own: its log and its gauge did not have the outage."""

import itertools
import logging
import sys
from collections.abc import Iterator
from typing import Any

import oslo_messaging
import pytest

from minova import errors
from minova.backoff import Backoff
from minova.context import service_context
from minova.contracts.conductor import ConductorApi
from minova.messaging import driver_log, rpc
from minova.metrics import DEPENDENCY_UP


class Client:
    """Fails as often as there are errors, and then answers."""

    def __init__(self, failures: list[Exception]) -> None:
        self.calls = 0
        self._failures = failures

    def prepare(self, **_: Any) -> "Client":
        return self

    def call(self, *_: Any, **__: Any) -> None:
        self.calls += 1
        if self._failures:
            raise self._failures.pop()


def away() -> list[Exception]:
    return [oslo_messaging.MessageDeliveryFailure(f"127.0.0.1: refused after {tries} tries") for tries in range(3)]


def report(client: Client, *, patient: bool) -> None:
    proxy: Any = rpc.Proxy(client, ConductorApi, patient=patient)
    proxy.delete_failed(service_context(), instance_uuid="i", host="a", reason="no", kind="")


@pytest.fixture(autouse=True)
def answering_broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(rpc, "BROKER_PAUSES", Backoff(first=0.001, longest=0.001))
    driver_log.OUTAGE.answered()
    yield
    driver_log.OUTAGE.answered()


def test_a_call_that_waits_logs_the_outage_once_and_its_end(caplog: pytest.LogCaptureFixture) -> None:
    client = Client(away())
    with caplog.at_level(logging.WARNING, driver_log.LOG.name):
        report(client, patient=True)
    assert client.calls == 4
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "The message broker does not answer: 127.0.0.1: refused after 2 tries",
        said[1],
    ]
    assert said[1].startswith("The message broker answers again after ")
    assert DEPENDENCY_UP.labels("broker")._value.get() == 1


def test_a_call_for_a_person_does_not_wait() -> None:
    client = Client(away())
    with pytest.raises(errors.ServiceUnavailable, match="the message broker does not answer"):
        report(client, patient=False)
    assert client.calls == 1
    assert DEPENDENCY_UP.labels("broker")._value.get() == 0


def no_queue() -> Exception:
    error: Exception = oslo_messaging.MessageUndeliverable(None, "nova", "conductor", None)
    return error


def test_bug_each_kind_of_work_warned_that_its_peer_had_never_listened(caplog: pytest.LogCaptureFixture) -> None:
    """A restarted broker has no queue of the conductors until they connect again, some seconds after the compute."""
    client = Client([no_queue(), no_queue(), *away()])
    with caplog.at_level(logging.WARNING, driver_log.LOG.name):
        report(client, patient=True)
    assert client.calls == 6
    assert len(caplog.records) == 2
    assert caplog.records[1].getMessage().startswith("The message broker answers again after ")


def test_bug_end_of_an_outage_named_the_exception_that_was_handled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log appends the exception that is being handled to each line."""
    handled: list[object] = []
    monkeypatch.setattr(driver_log.OUTAGE, "answered", lambda: handled.append(sys.exc_info()[1]))
    with pytest.raises(errors.ServiceUnavailable):
        report(Client([no_queue()]), patient=False)
    assert handled == [None]


@pytest.mark.parametrize("patient", [False, True])
def test_a_peer_that_is_away_for_longer_is_named(monkeypatch: pytest.MonkeyPatch, patient: bool) -> None:
    seconds = itertools.count()
    monkeypatch.setattr(driver_log.OUTAGE, "_ticks", lambda: float(next(seconds)))
    driver_log.OUTAGE.failed("refused")
    client = Client([no_queue() for _ in range(1000)])
    with pytest.raises(errors.ServiceUnavailable) as caught:
        report(client, patient=patient)
    assert (
        str(caught.value)
        == "The request could not be delivered: no conductor service is connected to the message broker"
    )
    assert DEPENDENCY_UP.labels("broker")._value.get() == 1
    assert (client.calls > 1) == patient
