"""Contracts on the wire: arguments are checked by name and type, answers converted, errors come back as ours."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import oslo_messaging
import pytest

from minova import errors, rpc
from minova.conf.messaging import SAMPLE
from minova.context import RequestContext
from minova.contracts.base import call, cast
from minova.contracts.compute import ComputeApi
from minova.contracts.conductor import ConductorApi
from minova.contracts.scheduler import SchedulerApi
from minova.objects.flavor import Flavor

CTX = RequestContext(request_id="req-1")
FLAVOR: dict[str, Any] = {"flavorid": "1", "name": "m1", "vcpus": 1, "memory_mb": 512, "root_gb": 1}


class Bakery:
    """A contract."""

    TOPIC = "bakery"
    VERSION = "1.0"

    @call
    def bake(self, ctx: RequestContext, flavor: Flavor, count: int = 1) -> tuple[Flavor, ...]:
        raise NotImplementedError

    @cast
    def burn(self, ctx: RequestContext, count: int) -> None:
        raise NotImplementedError

    def not_offered(self, ctx: RequestContext) -> None:
        raise NotImplementedError


class Baker:
    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.burnt: list[int] = []

    def bake(self, ctx: RequestContext, flavor: Flavor, count: int) -> tuple[Flavor, ...]:
        if self.error is not None:
            raise self.error
        return (flavor,) * count

    def burn(self, ctx: RequestContext, count: int) -> None:
        self.burnt.append(count)


def arrive(method: str, **arguments: Any) -> Any:
    """What a server does with what came over the wire."""
    try:
        return getattr(rpc.Endpoint(Baker(), Bakery), method)(CTX, **arguments)
    except oslo_messaging.ExpectedException as expected:
        raise expected.exc_info[1] from None


class Wire:
    """Takes the place of oslo.messaging's client: JSON both ways, and errors as its driver would raise them."""

    def __init__(self, manager: Any, failure: Exception | None = None) -> None:
        self._endpoint = rpc.Endpoint(manager, Bakery)
        self._failure = failure

    def call(self, ctx: RequestContext, method: str, **arguments: Any) -> Any:
        if self._failure is not None:
            raise self._failure
        try:
            answer = getattr(self._endpoint, method)(ctx, **over_json(arguments))
        except oslo_messaging.ExpectedException as expected:
            raise remote(expected.exc_info[1]) from None
        return over_json(answer)

    cast = call


def over_json(value: Any) -> Any:
    return json.loads(json.dumps(msgspec.to_builtins(value)))


def remote(error: BaseException) -> Exception:
    """As oslo.messaging gives it to the caller: a subclass made on the fly, with the traceback in its text."""
    made = type(f"{type(error).__name__}_Remote", (type(error),), {"__str__": lambda self: "Traceback ..."})
    raised: Exception = made(*error.args)
    return raised


def client(manager: Any, failure: Exception | None = None) -> Any:
    return rpc.Proxy(Wire(manager, failure), Bakery)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"flavor": {**FLAVOR, "vcpus": "many"}}, "bake: Expected `int`, got `str` - at `$.flavor.vcpus`"),
        ({"flavor": {"flavorid": "1"}}, "bake: Object missing required field `name` - at `$.flavor`"),
        ({}, "bake: Object missing required field `flavor`"),
        ({"flavor": FLAVOR, "count": None}, "bake: Expected `int`, got `null` - at `$.count`"),
        ({"flavor": FLAVOR, "sugar": 1}, "bake: Object contains unknown field `sugar`"),
    ],
)
def test_a_bad_argument_is_refused_by_method_and_field(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(errors.BadRequest) as raised:
        arrive("bake", **arguments)
    assert str(raised.value) == said


def test_fields_of_newer_senders_inside_an_object_are_ignored() -> None:
    (baked,) = arrive("bake", flavor={**FLAVOR, "colour": "red"})
    assert baked.name == "m1"


def test_arguments_and_answers_are_typed_on_both_sides() -> None:
    flavor = Flavor(**FLAVOR)
    assert client(Baker()).bake(CTX, flavor=flavor, count=2) == (flavor, flavor)


def test_a_cast_has_no_answer() -> None:
    baker = Baker()
    assert client(baker).burn(CTX, count=3) is None
    assert baker.burnt == [3]


def test_only_marked_methods_are_offered() -> None:
    assert sorted(rpc.methods_of(Bakery)) == ["bake", "burn"]
    with pytest.raises(AttributeError):
        client(Baker()).not_offered(CTX)


OURS = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, errors.MinovaError) and value is not errors.MinovaError
]


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_our_errors_come_back_as_they_were_raised(kind: type[errors.MinovaError]) -> None:
    with pytest.raises(errors.MinovaError) as raised:
        client(Baker(kind("the reason"))).bake(CTX, flavor=Flavor(**FLAVOR))
    assert type(raised.value) is kind
    assert str(raised.value) == "the reason"


@pytest.mark.parametrize(
    "failure",
    [oslo_messaging.MessagingTimeout("60 s"), oslo_messaging.MessageDeliveryFailure("no broker")],
    ids=["time-out", "undelivered"],
)
def test_no_answer_is_service_unavailable(failure: Exception) -> None:
    with pytest.raises(errors.ServiceUnavailable, match="bake"):
        client(Baker(), failure).bake(CTX, flavor=Flavor(**FLAVOR))


@pytest.mark.parametrize(
    "failure",
    [remote(KeyError("oven")), oslo_messaging.RemoteError("KeyError", "oven", ["Traceback ..."])],
    ids=["one of Python's", "any other"],
)
def test_what_nobody_foresaw_over_there_comes_without_its_traceback(failure: Exception) -> None:
    with pytest.raises(errors.MinovaError) as raised:
        client(Baker(), failure).bake(CTX, flavor=Flavor(**FLAVOR))
    assert type(raised.value) is errors.MinovaError
    assert str(raised.value) == "KeyError: oven"


def test_other_errors_are_left_as_they_are() -> None:
    with pytest.raises(ValueError, match="oven"):
        client(Baker(), ValueError("oven")).bake(CTX, flavor=Flavor(**FLAVOR))


@pytest.mark.parametrize("contract", [ConductorApi, ComputeApi, SchedulerApi], ids=lambda contract: contract.TOPIC)
def test_every_contract_can_be_served_and_has_the_history_of_its_version(contract: Any) -> None:
    methods = rpc.methods_of(contract)
    assert methods
    assert contract.VERSION in contract.HISTORY
    assert all(method.answer is type(None) for method in methods.values() if method.kind == "cast")


def test_a_manager_must_have_every_method_of_its_contract() -> None:
    build: Callable[[], Any] = lambda: rpc.Endpoint(object(), Bakery)  # noqa: E731
    with pytest.raises(AttributeError, match="bake"):
        build()


def test_the_sample_file_says_how_many_messages_are_worked_on_together() -> None:
    (told,) = [option for option in SAMPLE["DEFAULT"] if option.name == "executor_thread_pool_size"]
    (registered,) = oslo_messaging.server._pool_opts
    assert told.default == registered.default
