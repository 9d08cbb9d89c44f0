"""`minova server delete|restore`."""

import argparse
import sys
from functools import partial

from minova.cli import find
from minova.cli.base import Command
from minova.cli.client import COMPUTE, Client, Json, part
from minova.cli.commands.server.actions.action import ServerActionCommand, add_all_projects, find_all
from minova.cli.errors import ApiError, CliError
from minova.cli.parser import add_wait
from minova.cli.wait import Progress, TimedOut, wait_until_gone


class ServerDelete(Command):
    """Delete servers: their guests, disks and allocations."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("servers", nargs="+", metavar="SERVER", help="name or ID; if one is unknown, none goes")
        add_all_projects(parser)
        parser.add_argument("--force", action="store_true", help="at once: they cannot be restored")
        add_wait(parser, "until they are gone, or can only be restored", 300.0)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        look = find.server_or_deleted if parsed_args.force else find.server
        matches = find_all(self.client, parsed_args.servers, look=partial(look, every=parsed_args.all_projects))
        servers = {server["id"]: server for server in matches}
        for uuid in servers:
            self._delete(uuid, force=parsed_args.force)
        if parsed_args.wait:
            progress = Progress.on(sys.stderr)
            for server in servers.values():
                self._wait(server, progress, parsed_args.timeout)

    def _delete(self, uuid: str, *, force: bool) -> None:
        try:
            if force:
                self.client.post(f"{COMPUTE}/servers/{part(uuid)}/action", {"forceDelete": None})
                return
            self.client.delete(f"{COMPUTE}/servers/{part(uuid)}")
        except ApiError as error:
            if error.status != 404:  # another client was faster
                raise

    def _wait(self, server: Json, progress: Progress, timeout: float) -> None:
        try:
            wait_until_gone(self.client, server, progress, timeout)
        except TimedOut as late:
            raise CliError(f"Waited {timeout:g} s: {late}. It goes on being deleted.") from None
        except KeyboardInterrupt:
            print("\nStopped waiting: the servers go on being deleted.", file=sys.stderr)
            raise


class ServerRestore(ServerActionCommand):
    """Restore servers that were deleted a while ago, if the cloud keeps them so long."""

    key = "restore"
    status = "ACTIVE"
    done = "restored"

    def find(self, client: Client, name_or_id: str, *, every: bool) -> Json:
        return find.server_to_restore(client, name_or_id, every=every)
