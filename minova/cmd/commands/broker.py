"""`minova-manage broker`: sets up services' users and the limits of queues at RabbitMQ, by commands for its host or by its
management API.
"""

import getpass
import secrets
import shlex
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import msgspec
import urllib3
from oslo_config import cfg

from minova import errors
from minova.concurrency import threads
from minova.contracts.base import Role
from minova.messaging.broker_users import BrokerUser, permissions_of

threads.use_native()

import oslo_messaging  # noqa: E402
from oslo_messaging import opts  # noqa: E402

TIMEOUT = 15.0
RABBIT = "oslo_messaging_rabbit"


# What oslo.messaging's driver uses where transport_url names no port. minova's own examples name it.
PORT, TLS_PORT = 5672, 5671


class Broker(msgspec.Struct, frozen=True, kw_only=True):
    """The broker of this cloud. `hosts`: with their ports; empty: this configuration names none."""

    hosts: tuple[tuple[str, int], ...]
    vhost: str
    tls: dict[str, str]

    def url(self, user: str, password: str, vhost: str) -> str:
        hosts = self.hosts or (("BROKER", TLS_PORT if self.tls else PORT),)
        places = [f"{user}:{password}@{f'[{host}]' if ':' in host else host}:{port}" for host, port in hosts]
        return f"rabbit://{','.join(places)}/{'' if vhost == '/' else quote(vhost, safe='')}"


def broker_of(conf: cfg.ConfigOpts) -> Broker:
    """Returns the broker of transport_url. Raises InvalidConfiguration if that is no URL."""
    conf.register_opts(dict(opts.list_opts())[RABBIT], group=RABBIT)
    try:
        url = oslo_messaging.TransportURL.parse(conf)
    except oslo_messaging.InvalidTransportURL as error:
        raise errors.InvalidConfiguration(f"transport_url: {error}") from None
    tls = {}
    if conf[RABBIT].ssl:
        files = {"ssl_ca_file": conf[RABBIT].ssl_ca_file}
        tls = {"ssl": "true", **{name: value for name, value in files.items() if value}}
    usual = TLS_PORT if tls else PORT
    hosts = [(host.hostname, host.port or usual) for host in url.hosts if host.hostname]
    return Broker(hosts=tuple(hosts) if url.transport == "rabbit" else (), vhost=url.virtual_host or "/", tls=tls)


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """`password` None: the user exists already and keeps its password."""

    user: BrokerUser
    broker: Broker
    vhost: str
    password: str | None

    def commands(self) -> list[str]:
        """Returns commands for a shell on the RabbitMQ host. The general permissions come last: without them the user
        may do nothing.
        """
        name, permissions = str(self.user), permissions_of(self.user)
        topics = [
            ["set_topic_permissions", "-p", self.vhost, name, exchange, *pair]
            for exchange, pair in permissions.topics.items()
        ]
        all_of_it = [
            "set_permissions",
            "-p",
            self.vhost,
            name,
            permissions.configure,
            permissions.write,
            permissions.read,
        ]
        return [*self._setting_password(), *(shlex.join(["rabbitmqctl", *words]) for words in (*topics, all_of_it))]

    def _setting_password(self) -> list[str]:
        """Returns the command that makes the user, or gives a user that exists its new password."""
        if self.password is None:
            return []
        change, add = (
            shlex.join(["rabbitmqctl", verb, str(self.user), self.password]) for verb in ("change_password", "add_user")
        )
        return [f"{change} 2>/dev/null || {add}"]

    def requests(self) -> list[tuple[str, dict[str, Any]]]:
        """Returns (path, body) of the PUT requests to the management API, in the same order."""
        name, permissions = quote(str(self.user), safe=""), permissions_of(self.user)
        vhost = quote(self.vhost, safe="")
        user_requests = [] if self.password is None else [(f"users/{name}", {"password": self.password, "tags": ""})]
        topics = [
            (f"topic-permissions/{vhost}/{name}", {"exchange": exchange, "write": write, "read": read})
            for exchange, (write, read) in permissions.topics.items()
        ]
        all_of_it = {"configure": permissions.configure, "write": permissions.write, "read": permissions.read}
        return [*user_requests, *topics, (f"permissions/{vhost}/{name}", all_of_it)]

    def options(self) -> list[str]:
        """Returns the lines for the service's own file on its host, with the broker of this one."""
        password = "PASSWORD" if self.password is None else self.password
        lines = [
            f"# In /etc/minova/minova-{self.user.role}.conf on {self.user.host}:",
            "# [DEFAULT]",
            f"# transport_url = {self.broker.url(str(self.user), password, self.vhost)}",
        ]
        if self.broker.tls:
            lines += [f"# [{RABBIT}]", *(f"# {name} = {value}" for name, value in self.broker.tls.items())]
        return lines


class QueuePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of the queues whose names match `pattern`. Unlike arguments of a declaration they apply to existing queues."""

    name: str
    pattern: str
    definition: dict[str, Any]


# The queue of a host holds a few messages. One that is full loses its oldest messages, which are hints about rows; one that was not
# used for a week is deleted, and its host makes it again.
POLICIES = (
    QueuePolicy(
        name="minova-hosts",
        pattern=r"^compute\..+",
        definition={"max-length": 10_000, "overflow": "drop-head", "expires": 7 * 86_400 * 1000},
    ),
)


def set_policies(conf: cfg.ConfigOpts) -> None:
    command = conf.command
    if command.apply:
        vhost = quote(command.vhost or broker_of(conf).vhost, safe="")
        bodies = {
            policy.name: {"pattern": policy.pattern, "definition": policy.definition, "apply-to": "queues"}
            for policy in POLICIES
        }
        requests = [(f"policies/{vhost}/{name}", body) for name, body in bodies.items()]
        apply(command.apply, requests, authorities_of(conf))
        return
    for policy in POLICIES:
        definition = msgspec.json.encode(policy.definition).decode()
        vhost = command.vhost or broker_of(conf).vhost
        words = ["set_policy", "-p", vhost, "--apply-to", "queues", policy.name, policy.pattern, definition]
        print(shlex.join(["rabbitmqctl", *words]))


def run(conf: cfg.ConfigOpts) -> None:
    command = conf.command
    password = None if command.existing else secrets.token_hex(24)
    broker = broker_of(conf)
    user = BrokerUser(Role(command.service), command.host_name)
    account = Account(user=user, broker=broker, vhost=command.vhost or broker.vhost, password=password)
    if command.apply:
        apply(command.apply, account.requests(), authorities_of(conf))
    else:
        print("\n".join(account.commands()))
    print("\n".join(account.options()))


def authorities_of(conf: cfg.ConfigOpts) -> str | None:
    """Returns the file of authorities that signed RabbitMQ's certificates: the API has the one of the broker, unless --cafile says
    otherwise. None: those of the system.
    """
    return conf.command.cafile or broker_of(conf).tls.get("ssl_ca_file")


def apply(url: str, requests: Sequence[tuple[str, dict[str, Any]]], cafile: str | None = None) -> None:
    """Raises InvalidConfiguration if the URL is invalid, ServiceUnavailable if RabbitMQ does not answer or refuses a
    request.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or not parts.username:
        raise errors.InvalidConfiguration("--apply is not a URL such as https://USER@HOST:15671")
    password = getpass.getpass() if parts.password is None else unquote(parts.password)
    base = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}/api/"
    headers = urllib3.make_headers(basic_auth=f"{unquote(parts.username)}:{password}")
    http = urllib3.PoolManager(headers=headers, ca_certs=cafile, retries=False, timeout=TIMEOUT)
    for path, body in requests:
        try:
            answer = http.request("PUT", base + path, json=body, headers=headers)
        except urllib3.exceptions.HTTPError as error:
            raise errors.ServiceUnavailable(f"RabbitMQ's management API does not answer: {error}") from None
        if answer.status not in {200, 201, 204}:
            raise errors.ServiceUnavailable(f"RabbitMQ refused {path}: HTTP {answer.status} {answer.data[:200]!r}")
