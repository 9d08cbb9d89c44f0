"""A cloud over RabbitMQ whose services have users of their own, made by minova-manage, and messages of anyone to it."""

import io
import re
import threading
import typing
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import msgspec
from kombu.connection import Connection
from kombu.messaging import Producer
from sqlalchemy import select

from minova.cmd import manage
from minova.contracts.base import Method
from minova.db.engine import Database
from minova.db.models import Base, ComputeNode, ResourceProvider
from tests.cluster import Cluster
from tests.servers.rabbitmq import SecureRabbitMQ

HOSTS = ("victim", "rogue")


class Users:
    """Transport URLs by service and host; each user is made when it is first asked for."""

    def __init__(self, broker: SecureRabbitMQ, folder: Path, vhost: str) -> None:
        self.vhost = vhost
        self._broker = broker
        self._lock = threading.Lock()
        self._file = folder / "manage.conf"
        self._file.write_text("")
        self._urls: dict[tuple[str, str], str] = {}

    def url(self, service: str, host: str) -> str:
        with self._lock:  # the standard output is one for all threads
            return self._url(service, host)

    def _url(self, service: str, host: str) -> str:
        if (service, host) not in self._urls:
            printed = self.manage("--service", service, "--apply", self._broker.management_url, host)
            password = re.search(rf"rabbit://{service}\.{host}:([^@]+)@", printed)
            assert password is not None, printed
            self._urls[service, host] = self._broker.url_of(f"{service}.{host}", password[1], self.vhost)
        return self._urls[service, host]

    def manage(self, *words: str) -> str:
        printed = io.StringIO()
        with redirect_stdout(printed):
            code = manage.run(
                ["--config-file", str(self._file), "broker", "permissions", "--vhost", self.vhost, *words]
            )
        assert code == 0
        return printed.getvalue()


@contextmanager
def secure_cloud(broker: SecureRabbitMQ, folder: Path, **overrides: Any) -> Iterator[tuple[Cluster, Users]]:
    """The computes audit at their start alone, so that rows stay as they are."""
    vhost = broker.fresh_url().rpartition("/")[2]
    users = Users(broker, folder, vhost)
    options = {
        "broker__per_host_users": True,
        "update_resources_interval": -1,
        # It audits at the start, too, and some time after the first audit.
        "running_deleted_instance_poll_interval": 0,
        "report_interval": 3600,
        **overrides,
    }
    with Cluster(folder, HOSTS, transport_url=users.url, **options) as cluster:
        yield cluster, users


class Attacker:
    """A client of the broker with a user's URL, which keeps to no rule of minova's."""

    def __init__(self, url: str) -> None:
        self._url = url.replace("rabbit://", "amqp://", 1)

    @contextmanager
    def channel(self) -> Iterator[Any]:
        options = {"confirm_publish": True}
        with Connection(self._url, transport_options=options) as connection:  # type: ignore[no-untyped-call]
            yield connection.channel()

    def tries(self, act: Callable[[Any], object]) -> str | None:
        """RabbitMQ's refusal; None: it let it happen."""
        try:
            with self.channel() as channel:
                act(channel)
        except Exception as error:  # noqa: BLE001  - py-amqp's own kinds, and those of kombu
            return f"{type(error).__name__}: {error}"
        return None

    def publish(self, exchange: str, key: str, body: Any, **properties: Any) -> str | None:
        def act(channel: Any) -> None:
            producer: Any = Producer(channel)  # type: ignore[no-untyped-call]
            producer.publish(body, exchange=exchange, routing_key=key, serializer="json", mandatory=True, **properties)

        return self.tries(act)


def envelope(method: str, version: str, arguments: dict[str, Any], **context: Any) -> dict[str, Any]:
    """A message as oslo.messaging sends it."""
    ctx = {"request_id": "req-1", "is_admin": True, "user_id": "", "project_id": "", "process": None, **context}
    message = {
        "method": method,
        "args": msgspec.to_builtins(arguments),
        "version": version,
        "_unique_id": uuid.uuid4().hex,
        **{f"_context_{name}": value for name, value in ctx.items()},
    }
    return {"oslo.version": "2.0", "oslo.message": msgspec.json.encode(message).decode()}


# -- arguments ---------------------------------------------------------------------------------------------------------


class Facts(msgspec.Struct, frozen=True):
    """What arguments say. `names`: values by the name of an argument or field, where they are of its type; `fields`: those of
    a struct by its type, before all others.
    """

    host: str
    names: dict[str, Any]
    fields: dict[type, dict[str, Any]] = {}


def arguments_of(method: Method, facts: Facts) -> dict[str, Any]:
    """Something for each argument of the method, also of methods to come."""
    kind = method.arguments.kind
    hints = typing.get_type_hints(kind)
    return {name: _value(name, hints[name], facts) for name in kind.__struct_fields__}


_SIMPLE: dict[Any, Any] = {str: "x", int: 1, float: 1.0, bool: True, Any: None}


def _value(name: str, hint: Any, facts: Facts) -> Any:
    if isinstance(facts.names.get(name), _simple_type(hint)):
        return facts.names[name]
    if name in {"host", "dest_compute", "source_compute"}:
        return facts.host
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _struct(hint, facts)
    if isinstance(hint, type) and issubclass(hint, str):  # an enumeration
        return next(iter(hint)).value  # type: ignore[call-overload]
    if origin is tuple:
        return (_value(name.removesuffix("s"), inside[0], facts),)
    if origin is dict:
        return {_key(name, facts): _value("", inside[1], facts)}
    if inside:  # a union, or Annotated
        return _value(name, next(inner_type for inner_type in inside if inner_type is not type(None)), facts)
    raise AssertionError(f"there is no value for {name}: {hint}")


def _simple_type(hint: Any) -> Any:
    """The type of a plain value; that of none for other hints."""
    inside = [inner_type for inner_type in typing.get_args(hint) if inner_type is not type(None)]
    kind = inside[0] if len(inside) == 1 or typing.get_origin(hint) is typing.Annotated else hint
    return kind if isinstance(kind, type) and issubclass(kind, str | int) else ()


def _key(name: str, facts: Facts) -> str:
    return str(facts.names["instance_uuid"]) if name == "states" else "key"


def _struct(kind: Any, facts: Facts) -> Any:
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = msgspec.structs.fields(kind)
    field_names = [
        field.name for field in fields if field.required or field.name in facts.names or field.name == "host"
    ]
    return {name: _value(name, hints[name], facts) for name in field_names} | facts.fields.get(kind, {})


# -- what must not change ----------------------------------------------------------------------------------------------

# Beats, reports, leases, keys, the clock, counters and the feed of changes go on whatever is sent; names of traits and classes belong to
# no host.
MOVING = {
    *("heartbeats", "witness_reports", "image_token_keys", "workers", "clock", "change_counters", "host_changes"),
    *("traits", "resource_classes"),
}
OWN = "rogue"


def rows(db: Database) -> dict[str, list[dict[str, Any]]]:
    """All rows of all tables, but for those of the host `rogue` itself."""
    rows_by_table: dict[str, list[dict[str, Any]]] = {}
    with db.read() as session:
        mine = set(session.scalars(select(ResourceProvider.id).where(ResourceProvider.name == OWN)))
        nodes = set(session.scalars(select(ComputeNode.id).where(ComputeNode.host == OWN)))
        for name, table in sorted(Base.metadata.tables.items()):
            if name not in MOVING:
                kept = [dict(row) for row in session.execute(select(table)).mappings()]
                kept = [row for row in kept if row.get("provider_id") not in mine and row.get("node_id") not in nodes]
                kept = [row for row in kept if OWN not in str(row)]
                rows_by_table[name] = sorted(kept, key=str)
    return rows_by_table


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    pairs = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
    return {
        name: ([row for row in old if row not in new], [row for row in new if row not in old])
        for name, (old, new) in pairs.items()
    }
