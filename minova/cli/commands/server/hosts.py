"""`minova host evacuate|evacuate live|servers migrate`: move all servers of a host, a few at a time, with a table of what
became of each. One that cannot be moved stops no other.
"""

import argparse
import io
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, NamedTuple

from minova.cli.base import Lister
from minova.cli.client import COMPUTE, Client, Json
from minova.cli.commands.server.actions.action import failure_of
from minova.cli.commands.server.actions.evacuate import VERSION, add_destination, preview
from minova.cli.commands.server.actions.moves import LIVE, live_arguments
from minova.cli.errors import CliError
from minova.cli.output.columns import printable
from minova.cli.output.servers import HOST, fault_text
from minova.cli.parser import positive, seconds
from minova.cli.wait import Progress, ServerGone, TimedOut, wait_for_status

COLUMNS = ("ID", "Name", "Status", "Host", "Outcome")
# More at once would all fetch images, or copy disks, over the same few links.
AT_ONCE = 3


class ServerOutcome(NamedTuple):
    """The outcome for one server. `is_well`: nothing is left to do for it on its old host."""

    server: Json
    text: str
    is_well: bool


class HostMove(Lister):
    """`key`: the action of each server; `moved`: how its success is called; `version`: the microversion."""

    key: ClassVar[str]
    moved: ClassVar[str]
    version: ClassVar[str] = VERSION
    first_columns = ("Outcome", "Name", "ID")

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("of_host", metavar="HOST", help="the host that they leave")
        add_destination(parser, "--target-host")
        parser.add_argument(
            "--max-servers", type=positive, metavar="COUNT", help="move so many of them at most (default: all)"
        )
        parser.add_argument(
            "--parallel",
            type=positive,
            default=AT_ONCE,
            metavar="COUNT",
            help=f"so many at a time (default: {AT_ONCE})",
        )
        parser.add_argument(
            "--timeout", type=seconds, default=600.0, metavar="SECONDS", help="how long to wait for each (default: 600)"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        client = self.client.at(self.version)
        servers = list(client.pages(f"{COMPUTE}/servers/detail", "servers", all_tenants=1, host=parsed_args.of_host))
        chosen = servers[: parsed_args.max_servers]
        if not chosen:
            raise CliError(f"Host '{printable(parsed_args.of_host)}' has no servers.")
        work = self.previewed if parsed_args.dry_run else self.moved_one
        with ThreadPoolExecutor(parsed_args.parallel) as pool:
            outcomes = list(pool.map(lambda server: work(client, server, parsed_args), chosen))
        self.exit_code = int(not all(outcome.is_well for outcome in outcomes))
        return COLUMNS, [
            (
                server_outcome.server["id"],
                server_outcome.server["name"],
                server_outcome.server["status"],
                server_outcome.server.get(HOST),
                server_outcome.text,
            )
            for server_outcome in outcomes
        ]

    def arguments(self, parsed_args: argparse.Namespace) -> Any:
        """Returns the value of the action's key in the request."""
        return {} if parsed_args.host is None else {"host": parsed_args.host}

    def previewed(self, client: Client, server: Json, parsed_args: argparse.Namespace) -> ServerOutcome:
        try:
            place, reason = preview(client, server["id"], {self.key: self.arguments(parsed_args)})
        except CliError as error:
            return ServerOutcome(server, f"refused: {error}", False)
        return ServerOutcome(server, f"would go to {place}" if place else reason, place is not None)

    def moved_one(self, client: Client, server: Json, parsed_args: argparse.Namespace) -> ServerOutcome:
        try:
            requested = client.request_action(server["id"], {self.key: self.arguments(parsed_args)})
            last = wait_for_status(client, server, Progress(io.StringIO()), parsed_args.timeout)
        except TimedOut as late:
            return ServerOutcome(server, f"not done yet: {late}", False)
        except ServerGone:
            return ServerOutcome(server, "deleted meanwhile", True)
        except CliError as error:
            return ServerOutcome(server, f"refused: {error}", False)
        failure = failure_of(client, server["id"], requested.request_id)
        if failure is None and last["status"] == "ERROR":
            failure = fault_text(last) or "it is in ERROR"
        if failure is None and last.get(HOST) == server.get(HOST):
            failure = "it is on its host as before"
        return ServerOutcome(last, self.moved if failure is None else f"failed: {failure}", failure is None)


class HostEvacuate(HostMove):
    """Evacuate all servers of a host that is forced down: each is built again on another host.

    Say first that the host is down: 'minova service set HOST --down'. A server that cannot be evacuated is as it was.
    """

    key, moved = "evacuate", "evacuated"


class HostEvacuateLive(HostMove):
    """Migrate all servers of a host while they run.

    A host takes part in [DEFAULT] max_concurrent_live_migrations at once; the others wait for their turn. A server that is
    off, or cannot be migrated, stays.
    """

    key, moved = LIVE, "migrated"

    def arguments(self, parsed_args: argparse.Namespace) -> Any:
        return live_arguments(parsed_args.host)


class HostServersMigrate(HostMove):
    """Migrate all servers of a host: each is shut down, moved to another host and started there.

    Each waits there in VERIFY_RESIZE: 'minova server migration confirm' frees its old host for good.
    """

    key, moved = "migrate", "migrated, to be confirmed"
