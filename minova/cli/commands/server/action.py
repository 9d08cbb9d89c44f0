"""`minova server stop|start`: one class for each server action that takes no arguments."""

import argparse
import sys
from typing import ClassVar

from minova.cli.base import Command
from minova.cli.client import COMPUTE, Json, part
from minova.cli.commands.server.delete import find_all
from minova.cli.errors import CliError
from minova.cli.parser import seconds
from minova.cli.wait import Gone, Progress, TimedOut, failed_action, wait_for_status


class ServerAction(Command):
    """`key`: in the body of the request; `status`: the server's when it is done; `done`: what the help says of it."""

    key: ClassVar[str]
    status: ClassVar[str]
    done: ClassVar[str]

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "servers", nargs="+", metavar="SERVER", help="name or ID; if one is unknown, none is changed"
        )
        parser.add_argument("--wait", action="store_true", help=f"until they are {self.done}")
        parser.add_argument(
            "--timeout",
            type=seconds,
            default=300.0,
            metavar="SECONDS",
            help="how long --wait waits (default: 300)",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        servers = {
            server["id"]: server for server in find_all(self.client, parsed_args.servers, "Nothing was changed.")
        }
        for uuid in servers:
            self.client.post(f"{COMPUTE}/servers/{part(uuid)}/action", {self.key: None})
        if parsed_args.wait:
            progress = Progress.on(sys.stderr)
            for server in servers.values():
                self._wait(server, progress, parsed_args.timeout)

    def _wait(self, server: Json, progress: Progress, timeout: float) -> None:
        try:
            last = wait_for_status(self.client, server, progress, timeout)
        except TimedOut as late:
            raise CliError(f"Waited {timeout:g} s: {late}. The request is still in progress.") from None
        except Gone:
            raise CliError(f"Server {server['name']} was deleted meanwhile.") from None
        except KeyboardInterrupt:
            print("\nStopped waiting: the requests are still in progress.", file=sys.stderr)
            raise
        if last["status"] != self.status:
            raise CliError(failed_action(last, self.done))


class ServerStop(ServerAction):
    """Stop servers: their guests shut down, and keep their disks and their place."""

    key = "os-stop"
    status = "SHUTOFF"
    done = "stopped"


class ServerStart(ServerAction):
    """Start servers that are stopped."""

    key = "os-start"
    status = "ACTIVE"
    done = "started"
