"""Notifications: silent by default, sent in their order, and never in anybody's way."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from oslo_config import cfg
from oslo_messaging.notify import _impl_test

from minova import conf as configuration
from minova import errors
from minova.context import RequestContext
from minova.messaging.notifier import Notice, Notifier

CTX = RequestContext(request_id="req-1", user_id="u", project_id="p")


def conf_of(
    driver: list[str], queue_size: int = 100, url: str = "fake://", notification_format: str = "unversioned"
) -> cfg.ConfigOpts:
    conf = configuration.new()
    conf([], project="minova", default_config_files=[])
    conf.set_override("queue_size", queue_size, group="notifications")
    conf.set_override("notification_format", notification_format, group="notifications")
    silent = Notifier(conf)  # registers oslo.messaging's options
    silent.stop()
    conf.set_override("driver", driver, group="oslo_messaging_notifications")
    conf.set_override("transport_url", url, group="oslo_messaging_notifications")
    return conf


def notice(event_type: str, **payload: Any) -> Notice:
    return Notice(CTX, "compute.h1", event_type, payload)


@pytest.fixture(autouse=True)
def sent() -> Iterator[list[Any]]:
    _impl_test.reset()
    yield _impl_test.NOTIFICATIONS
    _impl_test.reset()


@pytest.mark.parametrize("driver", [[], ["noop"]])
def test_by_default_nothing_is_sent_and_no_thread_works(driver: list[str], sent: list[Any]) -> None:
    before = {*threading.enumerate()}
    notifier = Notifier(conf_of(driver))
    assert not notifier.enabled
    notifier.send(notice("a"))
    # A thread of an earlier test may have ended meanwhile.
    assert {*threading.enumerate()} <= before
    notifier.stop()
    assert sent == []


def test_they_come_in_their_order_with_who_asked_and_who_says_so(sent: list[Any]) -> None:
    notifier = Notifier(conf_of(["test"]))
    for number in range(20):
        notifier.send(notice(f"event.{number}", number=number))
    notifier.send(notice("event.error")._replace(priority="error"))
    notifier.stop()
    assert [message["event_type"] for _, message, _, _ in sent] == [*(f"event.{n}" for n in range(20)), "event.error"]
    context, message, priority, _ = sent[3]
    assert (context["request_id"], context["user_id"], context["project_id"]) == ("req-1", "u", "p")
    assert (message["publisher_id"], message["payload"], priority) == ("compute.h1", {"number": 3}, "INFO")
    assert sent[-1][2] == "ERROR"


def test_a_broker_that_is_away_blocks_no_request(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    notifier = Notifier(conf_of(["test"], queue_size=3), clock=lambda: now)
    held, stuck = threading.Event(), threading.Event()

    class Away:
        def prepare(self, publisher_id: str) -> Any:
            stuck.set()
            held.wait(30)
            raise OSError("Connection refused")

    notifier._sender = Away()
    notifier.send(notice("first"))
    assert stuck.wait(30)
    for number in range(10):
        notifier.send(notice(f"more.{number}"))
    assert notifier.dropped == 7
    assert caplog.text.count("notifications were dropped") == 1
    now = 61.0
    notifier.send(notice("last"))
    assert "7 notifications were dropped" in caplog.text
    held.set()
    notifier.stop()
    assert "Notification first could not be sent" in caplog.text


def test_a_url_that_is_none_stops_the_start() -> None:
    with pytest.raises(errors.InvalidConfiguration, match=r"\[oslo_messaging_notifications\] transport_url"):
        Notifier(conf_of(["test"], url="nothing://"))


def test_an_unknown_driver_stops_the_start_and_the_known_are_listed() -> None:
    with pytest.raises(errors.InvalidConfiguration, match=r"driver: unknown name 'pigeon'; known are .*messagingv2"):
        Notifier(conf_of(["pigeon"]))


@pytest.mark.parametrize(
    ("notification_format", "topics"),
    [
        ("unversioned", [True, False]),
        ("versioned", [False, True]),
        ("both", [True, True]),
    ],
)
def test_each_kind_is_for_senders_that_ask_first_which_is_sent(notification_format: str, topics: list[bool]) -> None:
    notifier = Notifier(conf_of(["test"], notification_format=notification_format))
    assert [notifier.unversioned, notifier.versioned] == topics
    notifier.stop()


def test_versioned_ones_go_to_topics_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, list[str]]] = []

    def notify(self: Any, ctxt: Any, message: Any, priority: str, retry: int) -> None:
        sent.append((message["event_type"], self.topics))

    monkeypatch.setattr(_impl_test.TestDriver, "notify", notify)
    notifier = Notifier(conf_of(["test"], notification_format="both"))
    notifier.send(notice("a"), notice("b")._replace(versioned=True))
    notifier.stop()
    assert sent == [("a", ["notifications"]), ("b", ["versioned_notifications"])]
