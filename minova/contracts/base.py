"""What a contract is: a Protocol whose methods are marked `call` (the caller waits for an answer) or `cast` (a hint).

Each contract class is decorated with `contract` and carries TOPIC, VERSION ("major.minor": minor = added, major =
broken) and HISTORY. During an upgrade, releases of different age talk to each other:

- `@call(since="1.3")` names the version that added a method. Without `since` the method is of version 1.0.
- `@call(added={"found": "1.3"})` names the version that added an argument. Such an argument has a default.
- A client sends the lowest version that has the method and the arguments that differ from their defaults. It omits
  arguments of a later version while they have their default values. So an older server answers every request that it
  can serve.
- `@call(encoded={"claim_number": "claim_no"})` keeps the name on the wire of an argument that was renamed in the code.
- New fields of structs have defaults. Receivers ignore unknown fields inside structs, and refuse unknown arguments.

`@call(in_safe_mode=True)` marks a method that is served in safe mode, because it removes nothing and changes no server,
guest or image. Every other method is refused then (minova/safe_mode.py).

`called_by`, at the contract or at the part of it that has the method, defines which services may call a method. Servers
check it if services have users of their own at the broker (minova/messaging/rpc_access.py). Without `called_by` no
service may call the method.
"""

import inspect
import typing
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from minova.codecs import Decoder

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)
FIRST = "1.0"


class Role(StrEnum):
    """The kinds of services."""

    API = "api"
    COMPUTE = "compute"
    CONDUCTOR = "conductor"
    CONSOLEPROXY = "consoleproxy"
    METADATA = "metadata"
    METADATA_PROXY = "metadataproxy"
    SCHEDULER = "scheduler"


class Mark(msgspec.Struct, frozen=True):
    kind: str
    since: str
    added: Mapping[str, str]
    encoded: Mapping[str, str]
    of_no_host: bool = False
    in_safe_mode: bool = False


class Audience(msgspec.Struct, frozen=True, kw_only=True):
    """Which services may call a method, and on which topic besides the contract's own; None: only on the contract's own
    topic.

    `speaks_for_host`: the caller must be the host that the arguments name.
    """

    roles: frozenset[Role] = frozenset()
    speaks_for_host: bool = False
    topic: str | None = None
    topic_since: str = FIRST


class Method(msgspec.Struct, frozen=True):
    """One method of a contract.

    `added`: the version of each argument that was added after the method.
    `encoded`: the names on the wire that differ from those in the code.
    `defaults`: the values of the arguments that may be omitted.
    `of_no_host`: no argument names the host that the caller speaks for, and the answer depends on the caller.
    `in_safe_mode`: also served in safe mode.
    """

    name: str
    kind: str
    arguments: Decoder[Any]
    answer: Decoder[Any]
    since: str
    added: Mapping[str, str]
    encoded: Mapping[str, str]
    defaults: Mapping[str, Any]
    audience: Audience = Audience()
    of_no_host: bool = False
    in_safe_mode: bool = False

    def request(self, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Returns the lowest version that can serve these arguments, and the arguments to send, by their names on the
        wire.
        """
        version, sent = self.since, {}
        for name, value in arguments.items():
            if name in self.added:
                if value == self.defaults[name]:
                    continue
                version = max(version, self.added[name], key=numbers)
            sent[self.encoded.get(name, name)] = value
        return version, sent


def numbers(version: str) -> tuple[int, ...]:
    """Returns a version as comparable numbers: 1.10 is above 1.9. Raises ValueError if it is not a version."""
    major, minor = version.split(".")
    return int(major), int(minor)


@typing.overload
def call(method: F) -> F: ...


@typing.overload
def call(
    *,
    since: str = FIRST,
    added: Mapping[str, str] = ...,
    encoded: Mapping[str, str] = ...,
    of_no_host: bool = ...,
    in_safe_mode: bool = ...,
) -> Callable[[F], F]: ...


def call(
    method: Any = None,
    *,
    since: str = FIRST,
    added: Mapping[str, str] | None = None,
    encoded: Mapping[str, str] | None = None,
    of_no_host: bool = False,
    in_safe_mode: bool = False,
) -> Any:
    """Marks a method whose caller waits for the answer or the error."""
    return _marked(method, Mark("call", since, added or {}, encoded or {}, of_no_host, in_safe_mode))


@typing.overload
def cast(method: F) -> F: ...


@typing.overload
def cast(
    *,
    since: str = FIRST,
    added: Mapping[str, str] = ...,
    encoded: Mapping[str, str] = ...,
    in_safe_mode: bool = ...,
) -> Callable[[F], F]: ...


def cast(
    method: Any = None,
    *,
    since: str = FIRST,
    added: Mapping[str, str] | None = None,
    encoded: Mapping[str, str] | None = None,
    in_safe_mode: bool = False,
) -> Any:
    """Marks a method whose sender does not wait. The sender has written a row first, from which a lost message is
    recovered.
    """
    return _marked(method, Mark("cast", since, added or {}, encoded or {}, in_safe_mode=in_safe_mode))


def _marked(method: Any, mark: Mark) -> Any:
    def set_mark(function: F) -> F:
        function.__rpc__ = mark  # type: ignore[attr-defined]
        return function

    return set_mark if method is None else set_mark(method)


def called_by(
    *roles: Role, topic: str | None = None, topic_since: str = FIRST, speaks_for_host: bool = False
) -> Callable[[C], C]:
    """Class decorator of a contract, or of a part of it: these services may call its methods; with `speaks_for_host`
    only for their own host.

    `topic`: a further topic besides the contract's own, on which servers listen from version `topic_since` on.
    """
    audience = Audience(roles=frozenset(roles), topic=topic, topic_since=topic_since, speaks_for_host=speaks_for_host)

    def set_audience(described: C) -> C:
        for function in vars(described).values():
            if hasattr(function, "__rpc__"):
                function.__audience__ = audience
        return described

    return set_audience


def contract(described: C) -> C:
    """Class decorator: makes the decoders of all arguments and answers. Raises TypeError if a version is wrong."""
    described.__rpc_methods__ = {  # type: ignore[attr-defined]
        name: _method(described, name, function)
        for name, function in inspect.getmembers(described, inspect.isfunction)
        if hasattr(function, "__rpc__")
    }
    return described


def methods_of(described: Any) -> Mapping[str, Method]:
    """The marked methods of a contract, by name."""
    methods: Mapping[str, Method] = described.__rpc_methods__
    return methods


def _method(described: Any, name: str, function: Callable[..., Any]) -> Method:
    mark: Mark = function.__rpc__  # type: ignore[attr-defined]
    hints = typing.get_type_hints(function)
    fields: list[Any] = []
    defaults = {}
    for parameter in list(inspect.signature(function).parameters.values())[2:]:  # after self and ctx
        field: tuple[Any, ...] = (parameter.name, hints[parameter.name])
        if parameter.default is not parameter.empty:
            defaults[parameter.name] = parameter.default
            field = (*field, parameter.default)
        fields.append(field)
    arguments = msgspec.defstruct(
        f"{described.__name__}.{name}",
        fields,
        kw_only=True,
        frozen=True,
        forbid_unknown_fields=True,
        rename=dict(mark.encoded),
    )
    method = Method(
        name,
        mark.kind,
        Decoder(arguments),
        Decoder(hints["return"]),
        mark.since,
        mark.added,
        mark.encoded,
        defaults,
        getattr(function, "__audience__", Audience()),
        mark.of_no_host,
        mark.in_safe_mode,
    )
    _check_versions(described, method)
    return method


def _check_versions(described: Any, method: Method) -> None:
    for what, version in {method.name: method.since, **method.added}.items():
        if not numbers(FIRST) <= numbers(version) <= numbers(described.VERSION):
            raise TypeError(f"{described.__name__}.{method.name}: {what} is of {version}, not of {described.VERSION}")
    for name, version in method.added.items():
        if name not in method.defaults or numbers(version) <= numbers(method.since):
            raise TypeError(f"{described.__name__}.{method.name}: {name} needs a default and a later version")
