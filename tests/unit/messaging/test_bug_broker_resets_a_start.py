"""A service ended with a traceback if RabbitMQ broke the connection in the moment in which the service began to listen."""

import threading

import oslo_messaging
import pytest

from minova import errors
from minova.backoff import Backoff
from minova.messaging.rpc import RpcServers
from minova.service import RpcService
from tests.unit.test_service import Book


class Listener:
    """A server that fails to start while `outages` has an error."""

    def __init__(self, outages: list[Exception]) -> None:
        self.started = 0
        self._outages = outages

    def start(self) -> None:
        if self._outages:
            raise self._outages.pop()
        self.started += 1


def lost() -> Exception:
    error: Exception = oslo_messaging.MessageDeliveryFailure("Unable to connect: [Errno 104] Connection reset by peer")
    return error


def test_what_could_not_start_starts_at_the_next_call_and_the_others_do_not_start_twice() -> None:
    listeners: list[Listener] = []
    outages: list[Exception] = []

    def maker() -> Listener:
        listeners.append(Listener(outages if len(listeners) else []))
        return listeners[-1]

    outages.append(lost())
    servers = RpcServers([maker, maker])
    with pytest.raises(errors.ServiceUnavailable, match="Connection reset"):
        servers.start()
    servers.start()
    servers.start()
    assert [each.started for each in listeners] == [1, 0, 1]


def test_an_error_that_is_not_the_brokers_ends_the_start() -> None:
    with pytest.raises(KeyError):
        RpcServers([lambda: Listener([KeyError("a defect")])]).start()


def test_a_service_listens_once_the_broker_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minova.service.BACKOFF", Backoff(first=0.001, longest=0.001))
    book, outages = Book(), [lost(), ConnectionResetError(104, "Connection reset by peer")]
    service = RpcService("minova-any", book, lambda: RpcServers([lambda: Listener(outages)]), threading.Event())
    service.start()
    assert outages == []
    assert book.notes == ["init_host", "pre_start_hook", "post_start_hook", "periodic_tasks"]
