"""The common part of the commands of server actions: `minova server stop|start|reboot|...`."""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple

from minova.cli import find
from minova.cli.base import Command
from minova.cli.client import COMPUTE, Client, Json, part
from minova.cli.errors import ApiError, CliError
from minova.cli.parser import add_wait
from minova.cli.wait import Progress, ServerGone, TimedOut, failed_action, wait_for_status


class Goal(NamedTuple):
    """What --wait waits for: the statuses that the server may have then, None: any, and what messages say of it."""

    statuses: frozenset[str] | None
    done: str


class ServerActionCommand(Command):
    """`key`: in the body of the request; `status`: the server's when it is done, None: any; `done`: what the help says of it."""

    key: ClassVar[str]
    status: ClassVar[str | None]
    done: ClassVar[str]

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "servers", nargs="+", metavar="SERVER", help="name or ID; if one is unknown, none is changed"
        )
        add_all_projects(parser)
        add_wait(parser, f"until they are {self.done}", 300.0)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        servers = self.find_each(parsed_args)
        arguments = {uuid: self.arguments_for(server, parsed_args) for uuid, server in servers.items()}
        requests = {}
        for uuid, server in servers.items():
            requested = self.client.request_action(uuid, {self.key: arguments[uuid]})
            requests[uuid] = requested.request_id
            self.show(server, requested.answer)
        if parsed_args.wait:
            progress = Progress.on(sys.stderr)
            goal = Goal(None if self.status is None else frozenset({self.status}), self.done)
            for uuid, server in servers.items():
                self.wait_for(goal, server, requests[uuid], progress, parsed_args.timeout)

    def find_each(self, parsed_args: argparse.Namespace) -> dict[str, Json]:
        """Returns the servers by their IDs, each once."""
        look = partial(self.find, every=parsed_args.all_projects)
        return {
            server["id"]: server for server in find_all(self.client, parsed_args.servers, "Nothing was changed.", look)
        }

    def find(self, client: Client, name_or_id: str, *, every: bool) -> Json:
        return find.server(client, name_or_id, every=every)

    def arguments(self, parsed_args: argparse.Namespace) -> Any:
        """Returns the value of the action's key in the request."""
        return None

    def arguments_for(self, server: Json, parsed_args: argparse.Namespace) -> Any:
        """Returns the value for one of the servers."""
        return self.arguments(parsed_args)

    def show(self, server: Json, answer: Any) -> None:
        """Shows information in the response to the user, besides the acceptance."""

    def wait_for(self, goal: Goal, server: Json, request_id: str | None, progress: Progress, timeout: float) -> None:
        """Waits for the goal of a request; None: of an earlier one. Raises CliError if the server does not reach it."""
        try:
            last = wait_for_status(self.client, server, progress, timeout)
        except TimedOut as late:
            raise CliError(f"Waited {timeout:g} s: {late}. The request is still in progress.") from None
        except ServerGone:
            raise CliError(f"Server {server['name']} was deleted meanwhile.") from None
        except KeyboardInterrupt:
            print("\nStopped waiting: the requests are still in progress.", file=sys.stderr)
            raise
        failure = failure_of(self.client, server["id"], request_id)
        if failure or (goal.statuses is not None and last["status"] not in goal.statuses):
            raise CliError(failed_action(last, goal.done, failure))


def failure_of(client: Client, server: str, request_id: str | None) -> str | None:
    """Returns why the action of this request failed; a server may be ACTIVE although its reboot failed.

    None if it did not fail, or if the API does not report it: a policy may forbid it, and an API of 0.1.0 has no records.
    """
    if not request_id:
        return None
    try:
        record = client.get(f"{COMPUTE}/servers/{part(server)}/os-instance-actions/{part(request_id)}")[
            "instanceAction"
        ]
    except ApiError:
        return None
    return record.get("message") if record.get("result", "Error") == "Error" else None


def add_all_projects(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--all-projects", action="store_true", help="look for names in every project (administrators); IDs need it not"
    )


def find_all(
    client: Client,
    names: list[str],
    undone: str = "Nothing was deleted.",
    look: Callable[[Client, str], Json] = find.server,
) -> list[Json]:
    """Returns all servers. Raises CliError that names each missing one and ends with `undone`, so that no work is half
    done.
    """
    servers, missing = [], []
    for name in names:
        try:
            servers.append(look(client, name))
        except ApiError:
            raise
        except CliError as error:
            missing.append(error)
    if missing:
        if len(missing) == 1 and len(names) == 1:
            raise missing[0]
        raise CliError("\n".join(str(error) for error in missing) + f"\n{undone}")
    return servers
