"""A private RabbitMQ node on the loopback."""

from __future__ import annotations

import json
import os
import socket

from tests.servers.private_server import PrivateServer, ServerError, program

SCRIPTS = "/usr/lib/rabbitmq/bin"
VHOSTS = 40


class RabbitMQ(PrivateServer):
    """`url` is the node's default virtual host; `fresh_url()` one that nobody has used yet, with no queues in it."""

    name = "rabbitmq"
    ports_needed = 2

    @property
    def url(self) -> str:
        return self._url("/")

    def fresh_url(self) -> str:
        """A transport URL with a virtual host of its own: tests whose queues have the same names do not meet there."""
        if not self._unused:
            raise ServerError(f"all {VHOSTS} virtual hosts are in use: raise VHOSTS in {__file__}")
        return self._url("/" + self._unused.pop())

    def prepare(self) -> None:
        self._unused = [f"test-{number}" for number in range(VHOSTS)]
        vhosts = ["/", *self._unused]
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        definitions = {
            "users": [{"name": "guest", "password": "guest", "tags": ["administrator"], "limits": {}}],
            "vhosts": [{"name": vhost} for vhost in vhosts],
            "permissions": [{"user": "guest", "vhost": vhost, **everything} for vhost in vhosts],
        }
        (self.directory / "definitions.json").write_text(json.dumps(definitions))
        (self.directory / "enabled_plugins").write_text("[].\n")
        # In Erlang's own terms: to translate a rabbitmq.conf takes a fifth of the CPU time of a start.
        (self.directory / "advanced.config").write_text(
            "[{rabbit, [\n"
            f'    {{tcp_listeners, [{{"127.0.0.1", {self.ports[0]}}}]}},\n'
            f'    {{load_definitions, "{self.directory}/definitions.json"}},\n'
            "    {disk_free_limit, 50000000},\n"
            "    {vm_memory_high_watermark, {absolute, 1000000000}}\n"
            "]}].\n"
        )

    def command(self) -> list[str]:
        # The scripts in PATH change to the user rabbitmq and drop the environment; these do not.
        return [program("rabbitmq-server", "rabbitmq-server", SCRIPTS)]

    def environment(self) -> dict[str, str]:
        port = self.ports[1]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("RABBITMQ_")}
        return inherited | {
            # The Erlang cookie is kept in the home folder.
            "HOME": str(self.directory),
            "RABBITMQ_NODENAME": "minova@localhost",
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
                f"-noinput -sname minova@localhost -start_epmd false -erl_epmd_port {port}"
                " -kernel inet_dist_use_interface {127,0,0,1} +S 2:2 +sbwt none"
            ),
        }

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
