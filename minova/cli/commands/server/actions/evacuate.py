"""`minova server evacuate`: build servers of a host that is down again on other hosts. And what moves have in common."""

import argparse
from typing import Any

from minova.cli.client import COMPUTE, Client, Json, part
from minova.cli.commands.server.actions.action import ServerActionCommand
from minova.cli.output.columns import printable

# From this version on no host is forced. From 2.95 on a server is stopped at its new host.
VERSION = "2.68"


class PreviewedAction(ServerActionCommand):
    """An action that moves servers: with --dry-run it shows where they would go."""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        if not parsed_args.dry_run:
            super().take_action(parsed_args)
            return
        for uuid, server in self.find_each(parsed_args).items():
            place, reason = preview(self.client, uuid, {self.key: self.arguments_for(server, parsed_args)})
            print(printable(f"{server['name']}: would go to {place}" if place else f"{server['name']}: {reason}"))
            self.exit_code |= not place


class ServerEvacuate(PreviewedAction):
    """Build servers of a host that is down again on another one.

    The host must be forced down: 'minova service set HOST --down'. On shared storage the servers keep their disks. Else
    they are rebuilt from their images, and what they had written is lost. With --dry-run nothing is done: it shows where
    they would go.
    """

    key = "evacuate"
    status = None
    done = "evacuated"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_destination(parser, "--host")
        parser.add_argument("--password", metavar="PASSWORD", help="for guests whose disks are made anew")
        return parser

    def arguments(self, parsed_args: argparse.Namespace) -> Any:
        chosen = {"host": parsed_args.host, "adminPass": parsed_args.password}
        return {name: value for name, value in chosen.items() if value is not None}

    @property
    def client(self) -> Client:
        return super().client.at(VERSION)


def add_destination(parser: argparse.ArgumentParser, option: str, *, dry_run: bool = True) -> None:
    parser.add_argument(
        option, metavar="HOST", dest="host", help="where they are to go (default: the scheduler chooses)"
    )
    parser.set_defaults(dry_run=False)
    if dry_run:
        add_dry_run(parser)


def add_dry_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="show where they would go; nothing is done")


def preview(client: Client, uuid: str, body: Json) -> tuple[str | None, str]:
    """Returns the host where this move would take the server, or why nowhere."""
    answer = client.post(f"{COMPUTE}/servers/{part(uuid)}/action/dry-run", body)["dry_run"]
    selected = answer["diagnosis"]["selected"]
    return (selected[0][0] if selected else None), str(answer["reason"] or "")
