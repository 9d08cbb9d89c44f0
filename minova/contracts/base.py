"""Contracts: Protocols whose methods are marked `call` (the caller waits for an answer) or `cast` (a hint).

Each contract class is decorated with `contract` and carries TOPIC, VERSION ("major.minor": minor = added, major =
broken) and HISTORY. During an upgrade, releases of different age talk to each other:

- `@call(since="1.3")` names the version that added a method. Without `since` the method is of version 1.0.
- `@call(added={"found": "1.3"})` names the version that added an argument. Such an argument has a default.
- A client sends the lowest version that has the method and the arguments that differ from their defaults. It omits
  arguments of a later version while they have their default values. So an older server answers every request that it
  can serve.
- `@call(fields={"port.binding_profile": "1.9"})` names the version that added a field to the struct of an argument, as
  a path. A receiver of an older version would drop the field in silence, so a field that differs from its default raises
  the version that the client sends. Fields that a receiver can do without need no version.
- `@call(encoded={"claim_number": "claim_no"})` keeps the name on the wire of an argument that was renamed in the code.
- New fields of structs have defaults. Receivers ignore unknown fields inside structs, and refuse unknown arguments.

Arguments are passed by name, so a contract declares them after `*`. mypy then compares their names, too, with those of
the class that implements the method.

Marks that a server enforces before the method gets a message (minova/messaging/dispatch.py):

- `@call(in_safe_mode=True)`: the method is served in safe mode, because it removes nothing and changes no server, guest
  or image. Every other method is refused then (minova/safe_mode.py).
- `@call(refused_when_disk_full=True)`: the method writes something new for users. It is refused while the database has
  little disk space left, which is kept for deletions and heartbeats.
- `@call(describes_host=True)`: the message brings the figures of the host. If it is refused, the host gets no new work until one is
  accepted.
- `called_by(..., shows_life=True)`: a message shows that the compute of the host that it names is alive.

`called_by`, at the contract or at the part of it that has the method, defines which services may call a method. Servers
check it if services have users of their own at the broker (minova/messaging/rpc_access.py). Without `called_by` no
service may call the method.
"""

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, TypedDict, TypeVar, Unpack

import msgspec

from minova.codecs import Decoder
from minova.contracts.once import ONCE

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


# The services of controllers. All others may be in the hands of an attacker who has stolen one machine.
CONTROLLERS = frozenset({Role.API, Role.CONDUCTOR, Role.SCHEDULER})


class MethodMark(msgspec.Struct, frozen=True, kw_only=True):
    """How a method was marked.

    `added`: the version of each argument that was added after the method.
    `fields`: the version of each field that was added to the struct of an argument, by its path.
    `encoded`: the names on the wire that differ from those in the code.
    `of_no_host`: no argument names the host that the caller speaks for, and the answer depends on the caller.
    `in_safe_mode`: also served in safe mode.
    `refused_when_disk_full`: writes something new for users.
    `describes_host`: brings the figures by which the scheduler chooses the host.
    """

    kind: str
    since: str = FIRST
    added: Mapping[str, str] = {}
    fields: Mapping[str, str] = {}
    encoded: Mapping[str, str] = {}
    of_no_host: bool = False
    in_safe_mode: bool = False
    refused_when_disk_full: bool = False
    describes_host: bool = False


class MethodOptions(TypedDict, total=False):
    """The fields of a MethodMark that `call` and `cast` take."""

    since: str
    added: Mapping[str, str]
    fields: Mapping[str, str]
    encoded: Mapping[str, str]
    of_no_host: bool
    in_safe_mode: bool
    refused_when_disk_full: bool
    describes_host: bool


class Audience(msgspec.Struct, frozen=True, kw_only=True):
    """Which services may call a method, and on which topic besides the contract's own; None: only on the contract's own
    topic.

    `speaks_for_host`: the caller must be the host that the arguments name.
    `shows_life`: the message shows that the compute of this host is alive.
    """

    roles: frozenset[Role] = frozenset()
    speaks_for_host: bool = False
    shows_life: bool = False
    topic: str | None = None
    topic_since: str = FIRST


class Request(NamedTuple):
    """A message to send.

    `version`: the lowest one that can serve it.
    `what`: the method, or it with the argument or field that needs the version; for messages.
    `arguments`: by their names on the wire.
    """

    version: str
    what: str
    arguments: Mapping[str, Any]


class Method(MethodMark, frozen=True, kw_only=True):
    """One method of a contract. `defaults`: the values of the arguments that may be omitted."""

    name: str
    arguments: Decoder[Any]
    answer: Decoder[Any]
    defaults: Mapping[str, Any]
    audience: Audience = Audience()

    @property
    def once(self) -> bool:
        """Whether a message of this call must not be executed twice."""
        return self.name in ONCE

    @property
    def from_hosts(self) -> bool:
        """Whether other services than those of controllers may call it."""
        return not self.audience.roles <= CONTROLLERS

    def request(self, arguments: Mapping[str, Any]) -> Request:
        sent = self._given(arguments)
        version, what = self.since, self.name
        since_by_name = {name: since for name, since in self.added.items() if name in sent}
        since_by_name |= {path: since for path, since in self.fields.items() if _is_given(sent, path)}
        for name, since in since_by_name.items():
            if numbers(since) > numbers(version):
                version, what = since, f"{self.name}({name})"
        return Request(version, what, {self.encoded.get(name, name): value for name, value in sent.items()})

    def _given(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments without those of a later version that have their defaults."""
        return {
            name: value for name, value in arguments.items() if name not in self.added or value != self.defaults[name]
        }


def _is_given(arguments: Mapping[str, Any], path: str) -> bool:
    """Whether the field has another value than its default."""
    first, *names, last = path.split(".")
    value = arguments.get(first)
    for name in names:
        value = getattr(value, name, None)
    return isinstance(value, msgspec.Struct) and getattr(value, last) != _default(type(value), last)


@functools.cache
def _default(kind: type[msgspec.Struct], name: str) -> Any:
    (field,) = (each for each in msgspec.structs.fields(kind) if each.name == name)
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def numbers(version: str) -> tuple[int, ...]:
    """Returns a version as comparable numbers: 1.10 is above 1.9. Raises ValueError if it is not a version."""
    major, minor = version.split(".")
    return int(major), int(minor)


@typing.overload
def call(method: F) -> F: ...


@typing.overload
def call(**options: Unpack[MethodOptions]) -> Callable[[F], F]: ...


def call(method: Any = None, **options: Unpack[MethodOptions]) -> Any:
    """Marks a method whose caller waits for the answer or the error."""
    return _marked(method, MethodMark(kind="call", **options))


@typing.overload
def cast(method: F) -> F: ...


@typing.overload
def cast(**options: Unpack[MethodOptions]) -> Callable[[F], F]: ...


def cast(method: Any = None, **options: Unpack[MethodOptions]) -> Any:
    """Marks a method whose sender does not wait. The sender has written a row first, from which a lost message is
    recovered.
    """
    return _marked(method, MethodMark(kind="cast", **options))


def _marked(method: Any, mark: MethodMark) -> Any:
    def set_mark(function: F) -> F:
        function.__rpc__ = mark  # type: ignore[attr-defined]
        return function

    return set_mark if method is None else set_mark(method)


def called_by(
    *roles: Role,
    topic: str | None = None,
    topic_since: str = FIRST,
    speaks_for_host: bool = False,
    shows_life: bool = False,
) -> Callable[[C], C]:
    """Class decorator of a contract, or of a part of it: these services may call its methods; with `speaks_for_host`
    only for their own host.

    `topic`: a further topic besides the contract's own, on which servers listen from version `topic_since` on.
    """
    audience = Audience(
        roles=frozenset(roles),
        topic=topic,
        topic_since=topic_since,
        speaks_for_host=speaks_for_host,
        shows_life=shows_life,
    )

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
    mark: MethodMark = function.__rpc__  # type: ignore[attr-defined]
    hints = typing.get_type_hints(function, include_extras=True)
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
        name=name,
        arguments=Decoder(arguments),
        answer=Decoder(hints["return"]),
        defaults=defaults,
        audience=getattr(function, "__audience__", Audience()),
        **msgspec.structs.asdict(mark),
    )
    _check_versions(described, method)
    return method


def _check_versions(described: Any, method: Method) -> None:
    for what, version in {method.name: method.since, **method.added, **method.fields}.items():
        if not numbers(FIRST) <= numbers(version) <= numbers(described.VERSION):
            raise TypeError(f"{described.__name__}.{method.name}: {what} is of {version}, not of {described.VERSION}")
    for name, version in method.added.items():
        if name not in method.defaults or numbers(version) <= numbers(method.since):
            raise TypeError(f"{described.__name__}.{method.name}: {name} needs a default and a later version")
    for path in method.fields:
        kind: Any = method.arguments.kind
        for name in path.split("."):
            kind = _struct_of(kind, name)
            if kind is None:
                raise TypeError(f"{described.__name__}.{method.name}: there is no field {path}")


def _struct_of(kind: Any, name: str) -> Any:
    """Returns the type of a field; None if there is no such field. An optional struct counts as the struct."""
    kinds = [
        each for each in (kind, *typing.get_args(kind)) if isinstance(each, type) and issubclass(each, msgspec.Struct)
    ]
    return next((field.type for each in kinds for field in msgspec.structs.fields(each) if field.name == name), None)
