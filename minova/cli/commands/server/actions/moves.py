"""`minova server resize|migrate`, and their confirmation or revert."""

import argparse
from typing import Any

from minova.cli import find
from minova.cli.commands.server.actions.action import ServerAction


class ServerResize(ServerAction):
    """Give servers another flavor, on another host or, where the cloud allows it, on their own. They are off meanwhile."""

    key = "resize"
    status = "VERIFY_RESIZE"
    done = "resized, and wait to be confirmed"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--flavor", required=True, help="name or ID of the new flavor")
        return parser

    def arguments(self, parsed_args: argparse.Namespace) -> Any:
        return {"flavorRef": find.flavor(self.client, parsed_args.flavor)["id"]}


class ServerResizeConfirm(ServerAction):
    """Confirm a resize or a migration of servers: their earlier hosts remove what they have kept."""

    key = "confirmResize"
    status = None
    done = "confirmed"


class ServerResizeRevert(ServerAction):
    """Revert a resize or a migration of servers: they go back to their earlier hosts and sizes. What they have written since is lost."""

    key = "revertResize"
    status = None
    done = "back"


class ServerMigrate(ServerAction):
    """Take servers to another host. They are off meanwhile."""

    key = "migrate"
    status = "VERIFY_RESIZE"
    done = "at their new hosts, and wait to be confirmed"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--host", help="the host that they are to go to (for administrators)")
        return parser

    def arguments(self, parsed_args: argparse.Namespace) -> Any:
        return {"host": parsed_args.host} if parsed_args.host else None
