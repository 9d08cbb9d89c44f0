"""A private RabbitMQ node on the loopback."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from tests.servers.authority import Authority
from tests.servers.private_server import PrivateServer, ServerError, program

SCRIPTS = "/usr/lib/rabbitmq/bin"
NODE = "minova@localhost"
# Each takes a tenth of a second at every start.
VHOSTS = 8


class RabbitMQ(PrivateServer):
    """`url` is the node's default virtual host; `fresh_url()` an unused one, with no queues in it."""

    name = "rabbitmq"
    ports_needed = 2
    plugins: ClassVar[str] = "[]."
    scripts = SCRIPTS

    def __init__(self, directory: Path | None = None, *, vhosts: int = VHOSTS) -> None:
        """`vhosts`: how many fresh URLs it has."""
        super().__init__(directory)
        self._vhosts = vhosts

    @property
    def url(self) -> str:
        return self._url("/")

    def fresh_url(self) -> str:
        """A transport URL with a virtual host of its own: tests whose queues have the same names do not meet there."""
        if not self._unused:
            raise ServerError(f"all {self._vhosts} virtual hosts are in use: ask for more where this RabbitMQ is made")
        return self._url("/" + self._unused.pop())

    def prepare(self) -> None:
        self._unused = [f"test-{number}" for number in range(self._vhosts)]
        vhosts = ["/", *self._unused]
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        definitions = {
            "users": [{"name": "guest", "password": "guest", "tags": ["administrator"], "limits": {}}],
            "vhosts": [{"name": vhost} for vhost in vhosts],
            "permissions": [{"user": "guest", "vhost": vhost, **everything} for vhost in vhosts],
        }
        (self.directory / "definitions.json").write_text(json.dumps(definitions))
        (self.directory / "enabled_plugins").write_text(f"{self.plugins}\n")
        # In Erlang's own terms: to translate a rabbitmq.conf takes a fifth of the CPU time of a start.
        (self.directory / "advanced.config").write_text(
            "[{rabbit, [\n"
            f'    {{tcp_listeners, [{{"127.0.0.1", {self.ports[0]}}}]}},\n'
            f'    {{load_definitions, "{self.directory}/definitions.json"}},\n'
            "    {disk_free_limit, 50000000},\n"
            f"    {self.more_options()}"
            "    {vm_memory_high_watermark, {absolute, 1000000000}}\n"
            f"]}}{self.more_applications()}].\n"
        )

    def more_options(self) -> str:
        """Terms of the application `rabbit`, each with a comma behind."""
        return ""

    def more_applications(self) -> str:
        """Other applications, each with a comma before."""
        return ""

    def command(self) -> list[str]:
        # The scripts in PATH change to the user rabbitmq and drop the environment; these do not.
        return [program("rabbitmq-server", "rabbitmq-server", self.scripts)]

    def environment(self) -> dict[str, str]:
        port = self.ports[1]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("RABBITMQ_")}
        return inherited | {
            # The Erlang cookie is kept in the home folder.
            "HOME": str(self.directory),
            "RABBITMQ_NODENAME": NODE,
            "RABBITMQ_MNESIA_BASE": str(self.directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.directory / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_PID_FILE": str(self.directory / "node.pid"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.directory / "enabled_plugins"),
            "RABBITMQ_CONFIG_FILE": str(self.directory / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(self.directory / "advanced.config"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            # Makes the script become the node instead of watching over it: one process to signal.
            "RABBITMQ_ALLOW_INPUT": "1",
            # A node that is named from the start and told its port needs no epmd, and starts none that would outlive it.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                f"-noinput -sname {NODE} -start_epmd false -erl_epmd_port {port}"
                " -kernel inet_dist_use_interface {127,0,0,1} +S 2:2 +sbwt none"
            ),
        }

    def ctl_environment(self) -> dict[str, str]:
        return self.environment() | {
            "RABBITMQ_CTL_ERL_ARGS": f"-start_epmd false -erl_epmd_port {self.ports[1]} -dist_listen false +S 1:1 +sbwt none"
        }

    def ctl_command(self) -> list[str]:
        return [program("rabbitmqctl", "rabbitmq-server", self.scripts), "-n", NODE, "-q"]

    def ctl(self, *words: str) -> str:
        """What rabbitmqctl prints. ServerError if it fails."""
        command = [*self.ctl_command(), *words]
        done = subprocess.run(command, env=self.ctl_environment(), capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise ServerError(f"rabbitmqctl {shlex.join(words)}: {done.stderr or done.stdout}")
        return done.stdout

    @contextmanager
    def alarm(self) -> Iterator[None]:
        """Inside, the node has less memory than it wants, and takes no messages."""
        self.ctl("set_vm_memory_high_watermark", "0.00001")
        try:
            yield
        finally:
            self.end_alarm()

    def end_alarm(self) -> None:
        self.ctl("set_vm_memory_high_watermark", "absolute", "1000000000")

    def answers(self) -> bool:
        # A wrong protocol version is answered with the right one, by a broker that is ready for clients.
        try:
            with socket.create_connection(("127.0.0.1", self.ports[0]), timeout=2) as client:
                client.sendall(b"AMQP\x00\x00\x09\x01")
                return client.recv(1) != b""
        except OSError:
            return False

    def _url(self, vhost: str) -> str:
        return f"rabbit://guest:guest@127.0.0.1:{self.ports[0]}/{vhost.removeprefix('/')}"


class NewestRabbitMQ(RabbitMQ):
    """A release that tools/newest-rabbitmq has unpacked into `folder`."""

    name = "rabbitmq-newest"

    def __init__(self, folder: Path, directory: Path | None = None, *, vhosts: int = VHOSTS) -> None:
        super().__init__(directory, vhosts=vhosts)
        self._programs = folder / "bin"
        self.scripts = str(next(folder.glob("root/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin")))

    def environment(self) -> dict[str, str]:
        inherited = super().environment()
        return inherited | {"PATH": f"{self._programs}:{inherited.get('PATH', os.defpath)}"}

    def more_options(self) -> str:
        # As releases to come have it.
        return "{permit_deprecated_features, #{transient_nonexcl_queues => false}},\n    "


class SecureRabbitMQ(RabbitMQ):
    """Also over TLS, for clients that show a certificate of the same authority; with the management API."""

    name = "rabbitmq-secure"
    ports_needed = 4
    plugins = "[rabbitmq_management,rabbitmq_auth_mechanism_ssl]."

    def __init__(self, authority: Authority, directory: Path | None = None) -> None:
        super().__init__(directory)
        self._authority = authority

    @property
    def management_url(self) -> str:
        return f"http://guest:guest@127.0.0.1:{self.ports[2]}"

    @property
    def tls_port(self) -> int:
        return self.ports[3]

    def url_of(self, user: str, password: str, vhost: str = "/") -> str:
        return f"rabbit://{user}:{password}@127.0.0.1:{self.ports[0]}/{vhost.removeprefix('/')}"

    def more_options(self) -> str:
        server = self._authority.issue("broker", self.directory)
        return (
            f'{{ssl_listeners, [{{"127.0.0.1", {self.tls_port}}}]}},\n'
            f'    {{ssl_options, [{{cacertfile, "{self._authority.certificate}"}}, {{certfile, "{server.certificate}"}},\n'
            f'        {{keyfile, "{server.key}"}}, {{verify, verify_peer}}, {{fail_if_no_peer_cert, true}}]}},\n'
        )

    def more_applications(self) -> str:
        return f', {{rabbitmq_management, [{{listener, [{{ip, "127.0.0.1"}}, {{port, {self.ports[2]}}}]}}]}}'
