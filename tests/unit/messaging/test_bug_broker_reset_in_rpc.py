"""A bare ConnectionResetError of a socket passed the RPC client as a traceback; one that the other side raised is no outage."""

from typing import Any

import amqp.exceptions
import kombu.exceptions
import pytest
from oslo_messaging._drivers import common

from minova import errors
from minova.context import service_context
from minova.contracts.conductor import ConductorApi
from minova.messaging import rpc


class Client:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def prepare(self, **_: Any) -> "Client":
        return self

    def call(self, *_: Any, **__: Any) -> Any:
        raise self._error

    cast = call


def beat(error: Exception) -> None:
    rpc.Proxy(Client(error), ConductorApi).heartbeat(service_context(), host="a", binary="b")


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError(104, "Connection reset by peer"),
        BrokenPipeError(32, "Broken pipe"),
        OSError("[Errno 113] No route to 10.9.8.7"),
        amqp.exceptions.ConnectionForced("10.9.8.7"),
        kombu.exceptions.OperationalError("10.9.8.7"),
    ],
)
def test_what_a_broken_connection_raises_is_a_service_unavailable(error: Exception) -> None:
    with pytest.raises(errors.ServiceUnavailable) as caught:
        beat(error)
    assert str(caught.value) == "The request could not be delivered, because the message broker does not answer"


def test_what_the_other_side_met_is_not_the_brokers() -> None:
    remote = type(f"ConnectionResetError{common._REMOTE_POSTFIX}", (ConnectionResetError,), {})
    with pytest.raises(errors.MinovaError) as caught:
        beat(remote("its own connection"))
    assert not isinstance(caught.value, errors.ServiceUnavailable)
