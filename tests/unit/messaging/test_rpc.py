"""Contracts on the wire: arguments are checked by name and type, answers converted, errors come back as ours."""

import json
import threading
from typing import Any

import msgspec
import oslo_messaging
import pytest

from minova import errors
from minova.concurrency.outside_waits import silent
from minova.conf.messaging import SAMPLE
from minova.context import RequestContext
from minova.contracts.base import call, cast, contract, methods_of
from minova.contracts.compute import ComputeApi
from minova.contracts.conductor import ConductorApi
from minova.contracts.scheduler import SchedulerApi
from minova.db.quotas import OverQuota
from minova.messaging import rpc
from minova.messaging.dispatch import Endpoint, Implementation
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.guest_hardware import InvalidExtraSpec

CTX = RequestContext(request_id="req-1")
FLAVOR: dict[str, Any] = {"flavorid": "1", "name": "m1", "vcpus": 1, "memory_mb": 512, "root_gb": 1}


@contract
class Bakery:
    """A contract."""

    TOPIC = "bakery"
    VERSION = "1.3"

    @call
    def bake(self, ctx: RequestContext, flavor: Flavor, count: int = 1) -> tuple[Flavor, ...]:
        raise NotImplementedError

    @cast
    def burn(self, ctx: RequestContext, count: int) -> None:
        raise NotImplementedError

    @call(since="1.1", added={"slices": "1.3", "salt": "1.2"}, encoded={"count": "count_no"})
    def toast(self, ctx: RequestContext, count: int, slices: int = 2, salt: bool = False) -> int:
        raise NotImplementedError

    @call(since="1.1", fields={"flavor.extra_specs": "1.3"})
    def freeze(self, ctx: RequestContext, flavor: Flavor | None) -> None:
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

    def toast(self, ctx: RequestContext, count: int, slices: int, salt: bool) -> int:
        return count * slices

    def freeze(self, ctx: RequestContext, flavor: Flavor | None) -> None:
        pass


def arrive(method: str, **arguments: Any) -> Any:
    """What a server does with what came over the wire."""
    try:
        return getattr(Endpoint(Implementation(parts=(Baker(),)), Bakery), method)(CTX, **arguments)
    except oslo_messaging.ExpectedException as expected:
        raise expected.exc_info[1] from None


class Wire:
    """Takes the place of oslo.messaging's client: JSON both ways, and errors as its driver would raise them."""

    def __init__(self, manager: Any, failure: Exception | None = None) -> None:
        self._endpoint = Endpoint(Implementation(parts=(manager,)), Bakery)
        self._failure = failure
        self.sent: list[tuple[str, str, dict[str, Any]]] = []
        self._version = ""

    def prepare(self, version: str) -> "Wire":
        self._version = version
        return self

    def call(self, ctx: RequestContext, method: str, **arguments: Any) -> Any:
        if self._failure is not None:
            raise self._failure
        self.sent.append((method, self._version, arguments))
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
    remote_class = type(f"{type(error).__name__}_Remote", (type(error),), {"__str__": lambda self: "Traceback ..."})
    raised: Exception = remote_class(*error.args)
    return raised


def client(manager: Any, failure: Exception | None = None) -> Any:
    return rpc.Proxy(Wire(manager, failure), Bakery)


def test_bug_work_that_waits_for_an_answer_seems_to_proceed() -> None:
    seen: list[str | None] = []

    class Slow(Baker):
        def toast(self, ctx: RequestContext, count: int, slices: int, salt: bool) -> int:
            seen.append(silent(threading.get_ident(), 0.0))
            return super().toast(ctx, count, slices, salt)

    assert client(Slow()).toast(CTX, count=1) == 2
    assert (seen, silent(threading.get_ident(), 0.0)) == (["the bakery service"], None)


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
    assert sorted(methods_of(Bakery)) == ["bake", "burn", "freeze", "toast"]
    with pytest.raises(AttributeError):
        client(Baker()).not_offered(CTX)


OURS = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, errors.MinovaError) and value is not errors.MinovaError
]
OURS.remove(errors.NoAnswer)
OURS.remove(errors.BrokerBlocked)
OURS.remove(errors.BrokerAway)


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_our_errors_come_back_as_they_were_raised(kind: type[errors.MinovaError]) -> None:
    with pytest.raises(errors.MinovaError) as raised:
        client(Baker(kind("the reason"))).bake(CTX, flavor=Flavor(**FLAVOR))
    assert type(raised.value) is kind
    assert str(raised.value) == "the reason"


class NoScheduler(errors.ServiceUnavailable):
    """As rpc raises it if no server listens."""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (NoScheduler("no scheduler service is connected"), errors.ServiceUnavailable),
        (OverQuota((), {}, {}), errors.Forbidden),
        (InvalidExtraSpec("the reason"), errors.BadRequest),
    ],
    ids=lambda one: "" if isinstance(one, type) else type(one).__name__,
)
def test_bug_error_that_callers_do_not_know_was_unexpected(
    error: errors.MinovaError, kind: type[errors.MinovaError]
) -> None:
    """A call that met no scheduler was answered with 500 in place of 503."""
    with pytest.raises(errors.MinovaError) as raised:
        client(Baker(error)).bake(CTX, flavor=Flavor(**FLAVOR))
    assert type(raised.value) is kind
    assert str(raised.value) == str(error)


def test_an_answer_that_the_server_itself_waited_for_in_vain_is_no_lost_answer() -> None:
    """A caller of the server would repeat its call otherwise; and a caller of the last release does not know the error."""
    with pytest.raises(errors.ServiceUnavailable, match="asleep") as raised:
        client(Baker(errors.NoAnswer("the miller is asleep"))).bake(CTX, flavor=Flavor(**FLAVOR))
    assert type(raised.value) is errors.ServiceUnavailable


@pytest.mark.parametrize(
    "failure",
    [oslo_messaging.MessagingTimeout("60 s"), oslo_messaging.MessageDeliveryFailure("no broker")],
    ids=["time-out", "undelivered"],
)
def test_no_answer_is_service_unavailable(failure: Exception) -> None:
    with pytest.raises(errors.ServiceUnavailable, match=r"No bakery service has answered|because the message broker"):
        client(Baker(), failure).bake(CTX, flavor=Flavor(**FLAVOR))


@pytest.mark.parametrize(
    "failure",
    [remote(KeyError("oven")), oslo_messaging.RemoteError("KeyError", "oven", ["Traceback ..."])],
    ids=["one of Python's", "any other"],
)
def test_an_unexpected_error_of_the_peer_comes_without_its_traceback(failure: Exception) -> None:
    with pytest.raises(errors.MinovaError) as raised:
        client(Baker(), failure).bake(CTX, flavor=Flavor(**FLAVOR))
    assert type(raised.value) is errors.MinovaError
    assert str(raised.value) == "KeyError: oven"


def test_other_errors_are_left_as_they_are() -> None:
    with pytest.raises(ValueError, match="oven"):
        client(Baker(), ValueError("oven")).bake(CTX, flavor=Flavor(**FLAVOR))


@pytest.mark.parametrize("described", [ConductorApi, ComputeApi, SchedulerApi], ids=lambda each: each.TOPIC)
def test_every_contract_can_be_served_and_has_the_history_of_its_version(described: Any) -> None:
    methods = methods_of(described)
    assert methods
    assert [*described.HISTORY][-1] == described.VERSION
    assert all(method.answer.kind is type(None) for method in methods.values() if method.kind == "cast")
    assert {version for method in methods.values() for version in (method.since, *method.added.values())} <= {
        *described.HISTORY
    }


@pytest.mark.parametrize(
    ("method", "arguments", "version", "sent"),
    [
        ("burn", {"count": 3}, "1.0", {"count": 3}),
        ("toast", {"count": 3}, "1.1", {"count_no": 3}),
        ("toast", {"count": 3, "slices": 2, "salt": False}, "1.1", {"count_no": 3}),
        ("toast", {"count": 3, "salt": True}, "1.2", {"count_no": 3, "salt": True}),
        ("toast", {"count": 3, "slices": 4, "salt": True}, "1.3", {"count_no": 3, "slices": 4, "salt": True}),
    ],
)
def test_a_call_carries_the_lowest_version_that_serves_its_arguments(
    method: str, arguments: dict[str, Any], version: str, sent: dict[str, Any]
) -> None:
    wire = Wire(Baker())
    getattr(rpc.Proxy(wire, Bakery), method)(CTX, **arguments)
    assert wire.sent == [(method, version, sent)]


@pytest.mark.parametrize(
    "failure",
    [
        oslo_messaging.RemoteError("UnsupportedVersion", "Endpoint does not support 1.1", ["Traceback ..."]),
        oslo_messaging.RemoteError("NoSuchMethod", "toast", ["Traceback ..."]),
        oslo_messaging.UnsupportedVersion("1.1", method="toast"),
    ],
    ids=["no such version", "no such method", "in this process"],
)
def test_bug_rolling_upgrade_a_server_that_is_too_old_can_be_asked_again_later(failure: Exception) -> None:
    with pytest.raises(
        errors.PeerTooOld, match=r"toast needs bakery 1\.1, and the service that was asked is older"
    ) as told:
        client(Baker(), failure).toast(CTX, count=3)
    assert isinstance(told.value, errors.ServiceUnavailable)


def test_above_the_known_level_nothing_is_sent() -> None:
    wire = Wire(Baker())
    bakery: Any = rpc.Proxy(wire, Bakery, level=lambda: "1.1")
    assert bakery.toast(CTX, count=3) == 6
    with pytest.raises(errors.PeerTooOld, match=r"toast\(salt\) needs bakery 1\.2, .* allows 1\.1"):
        bakery.toast(CTX, count=3, salt=True)
    assert len(wire.sent) == 1


@pytest.mark.parametrize(("extra_specs", "version"), [({}, "1.1"), ({"hw:cpu_policy": "shared"}, "1.3")])
def test_bug_a_new_field_of_a_struct_raises_the_version_of_the_message(
    extra_specs: dict[str, str], version: str
) -> None:
    """An older server would drop the field in silence."""
    flavor = Flavor(**FLAVOR, extra_specs=extra_specs)
    wire = Wire(Baker())
    rpc.Proxy(wire, Bakery).freeze(CTX, flavor=flavor)
    assert wire.sent == [("freeze", version, {"flavor": flavor})]


def test_an_older_server_is_not_asked_for_a_field_that_it_would_drop() -> None:
    wire = Wire(Baker())
    bakery: Any = rpc.Proxy(wire, Bakery, level=lambda: "1.2")
    bakery.freeze(CTX, flavor=Flavor(**FLAVOR))
    with pytest.raises(errors.PeerTooOld, match=r"freeze\(flavor\.extra_specs\) needs bakery 1\.3, .* allows 1\.2"):
        bakery.freeze(CTX, flavor=Flavor(**FLAVOR, extra_specs={"hw:cpu_policy": "shared"}))
    assert len(wire.sent) == 1


def test_an_optional_struct_that_is_not_given_needs_no_version() -> None:
    wire = Wire(Baker())
    rpc.Proxy(wire, Bakery).freeze(CTX, flavor=None)
    assert wire.sent == [("freeze", "1.1", {"flavor": None})]


@pytest.mark.parametrize(
    "mark",
    [
        call(since="1.4"),
        call(since="0.9"),
        call(since="1.1", added={"count": "1.2"}),
        call(since="1.1", added={"salt": "1.1"}),
        call(added={"salt": "1.4"}),
        call(fields={"count.name": "1.2"}),
        call(fields={"count": "1.4"}),
    ],
    ids=[
        *("above the contract's", "below the first", "no default", "not later", "argument above the contract's"),
        *("no such field", "field above the contract's"),
    ],
)
def test_a_contract_with_a_wrong_version_cannot_be_defined(mark: Any) -> None:
    def toast(self: Any, ctx: RequestContext, count: int, salt: bool = False) -> int:
        raise NotImplementedError

    with pytest.raises(TypeError, match="toast"):
        contract(type("Toastery", (), {"TOPIC": "toastery", "VERSION": "1.3", "toast": mark(toast)}))


@pytest.mark.parametrize(
    ("parts", "owners"), [((object(),), "none"), ((Baker(), Baker()), "Baker, Baker")], ids=["none", "two"]
)
def test_each_method_of_a_contract_belongs_to_one_part(parts: tuple[object, ...], owners: str) -> None:
    with pytest.raises(TypeError, match=f"bake must be a method of one part, and is one of {owners}"):
        Endpoint(Implementation(parts=parts), Bakery)


def test_the_sample_file_says_how_many_messages_are_worked_on_together() -> None:
    (told,) = [option for option in SAMPLE["DEFAULT"] if option.name == "executor_thread_pool_size"]
    (registered,) = oslo_messaging.server._pool_opts
    assert told.default == registered.default


class Stolen:
    """Answers every call with this."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def prepare(self, **_: Any) -> "Stolen":
        return self

    def call(self, ctx: RequestContext, name: str, **arguments: Any) -> Any:
        return self.answer


@pytest.mark.parametrize(
    "answer",
    ["\ud800", "x" * 300, "x" * (2 << 20), {"a": 1}, None, 2**70, [float("nan")], ["["] * 600_000],
    ids=["surrogate", "line", "text", "object", "null", "number", "nan", "values"],
)
def test_bug_answer_of_a_stolen_host_failed_what_others_had_answered(answer: Any) -> None:
    """The listing of all hypervisors shows how long each has been up. Text that no answer of the API can hold made it fail."""
    proxy: Any = rpc.Proxy(Stolen(answer), ComputeApi, host="stolen")
    with pytest.raises(errors.MinovaError, match="The answer of host stolen makes no sense"):
        proxy.get_host_uptime(CTX)


def test_bug_console_at_a_port_that_there_is_not_was_taken() -> None:
    proxy: Any = rpc.Proxy(Stolen({"host": "192.0.2.1", "port": 70_000}), ComputeApi, host="stolen")
    with pytest.raises(errors.MinovaError, match="The answer of host stolen makes no sense"):
        proxy.get_console(CTX, instance_uuid="x", console_type="novnc")
