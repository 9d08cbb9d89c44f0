"""Calls waited for a broker that was away as long as it was, whatever their time-out: the API's threads with them."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from minova import conf as configuration
from minova import errors
from minova.context import RequestContext, service_context
from minova.contracts.base import call, cast, contract
from minova.messaging.dispatch import Implementation
from minova.messaging.rpc import Rpc
from tests.servers.private_server import free_ports
from tests.servers.rabbitmq import RabbitMQ

CTX = service_context("req-1")
# Seconds; tries that are paused between for 1 and 3 seconds.
TOLD_WITHIN = 10.0


@contract
class Bakery:
    TOPIC = "bakery"
    VERSION = "1.0"

    @call
    def bake(self, ctx: RequestContext) -> int:
        raise NotImplementedError

    @cast
    def burn(self, ctx: RequestContext) -> None:
        raise NotImplementedError


class Baker:
    def bake(self, ctx: RequestContext) -> int:
        return 1

    def burn(self, ctx: RequestContext) -> None:
        """Nothing."""


def rpc_to(url: str) -> Rpc:
    return Rpc(configuration.load([], "test", files=[]), url)


def expect_unavailable(ask: Callable[[], Any]) -> None:
    begun = time.monotonic()
    with pytest.raises(errors.ServiceUnavailable, match="could not be delivered"):
        ask()
    assert time.monotonic() - begun < TOLD_WITHIN


@pytest.fixture
def broker() -> Iterator[RabbitMQ]:
    with RabbitMQ() as server:
        yield server


@pytest.mark.nightly(
    "two starts of a broker; who asks first of all is told each day, and test_servers_away has a broker that comes back"
)
def test_who_asks_is_told_soon_that_the_broker_went_away_and_is_answered_when_it_is_back(broker: RabbitMQ) -> None:
    rpc = rpc_to(broker.url)
    server = rpc.server(Bakery, Implementation(parts=(Baker(),)), host="h")
    server.start()
    bakery = rpc.client(Bakery, timeout=3.0, retry=2)
    assert bakery.bake(CTX) == 1
    broker.stop()
    expect_unavailable(lambda: bakery.bake(CTX))
    expect_unavailable(lambda: bakery.burn(CTX))
    broker.start()
    deadline = time.monotonic() + 60
    while True:
        try:
            assert bakery.bake(CTX) == 1
            break
        except errors.ServiceUnavailable:
            assert time.monotonic() < deadline
    server.stop()
    server.wait()
    rpc.close()


def test_who_asks_first_of_all_is_told_too() -> None:
    (port,) = free_ports(1)
    bakery = rpc_to(f"rabbit://guest:guest@127.0.0.1:{port}/").client(Bakery, timeout=3.0, retry=2)
    expect_unavailable(lambda: bakery.bake(CTX))
    expect_unavailable(lambda: bakery.burn(CTX))
