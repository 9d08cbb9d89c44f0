"""`minova server resize|migrate`, and their confirmation or revert."""

import argparse
from typing import Any, ClassVar

from minova.cli import find
from minova.cli.client import Client, Json
from minova.cli.commands.server.actions.action import ServerActionCommand
from minova.cli.commands.server.actions.evacuate import VERSION, PreviewedAction, add_dry_run
from minova.cli.errors import CliError

LIVE = "os-migrateLive"


class ServerResize(PreviewedAction):
    """Give servers another flavor, on another host or, where the cloud allows it, on their own. They are off meanwhile."""

    key = "resize"
    status = "VERIFY_RESIZE"
    done = "resized, and wait to be confirmed"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--flavor", required=True, help="name or ID of the new flavor")
        add_dry_run(parser)
        return parser

    def arguments(self, parsed_args: argparse.Namespace) -> Any:
        return {"flavorRef": find.flavor(self.client, parsed_args.flavor)["id"]}


class ServerResizeConfirm(ServerActionCommand):
    """Confirm a resize or a migration of servers: their earlier hosts remove what they have kept."""

    key = "confirmResize"
    status = None
    done = "confirmed"


class ServerResizeRevert(ServerActionCommand):
    """Revert a resize or a migration of servers: they go back to their earlier hosts and sizes. What they have written since is lost."""

    key = "revertResize"
    status = None
    done = "back"


class ServerMigrate(PreviewedAction):
    """Take servers to another host. They are off meanwhile, and then wait to be confirmed. With --live-migration they run on."""

    key = "migrate"
    status: ClassVar[str | None] = "VERIFY_RESIZE"
    done = "at their new hosts"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--host", help="the host that they are to go to (for administrators)")
        parser.add_argument("--live-migration", action="store_true", help="while they run, or are paused")
        mode = parser.add_mutually_exclusive_group()
        mode.add_argument(
            "--block-migration",
            action="store_true",
            help="live: only if the disks are copied (default: the hosts find out)",
        )
        mode.add_argument(
            "--shared-migration",
            action="store_true",
            help="live: only if both hosts have the disks (default: the hosts find out)",
        )
        add_dry_run(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        if parsed_args.live_migration:
            self.key, self.status = LIVE, None  # type: ignore[misc]
        elif parsed_args.block_migration or parsed_args.shared_migration:
            raise CliError("--block-migration and --shared-migration need --live-migration.")
        super().take_action(parsed_args)

    def arguments(self, parsed_args: argparse.Namespace) -> Any:
        if parsed_args.live_migration:
            return live_arguments(parsed_args.host, block=_block(parsed_args))
        return {"host": parsed_args.host} if parsed_args.host else None

    @property
    def client(self) -> Client:
        return super().client.at(VERSION)


def live_arguments(host: str | None, *, block: bool | None = None) -> Json:
    return {"host": host, "block_migration": "auto" if block is None else block}


def _block(parsed_args: argparse.Namespace) -> bool | None:
    return True if parsed_args.block_migration else False if parsed_args.shared_migration else None
