"""`minova server event list|show`: the actions of a server, and their results."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from minova.cli import find
from minova.cli.base import Lister, ShowOne
from minova.cli.client import COMPUTE, Json, part
from minova.cli.parser import add_paging

COLUMNS = ("Request ID", "Server ID", "Action", "Start Time", "User ID", "Result")
LONG_COLUMNS = ("Finish Time", "Project ID", "Message")


class ServerEventList(Lister):
    """List what was asked of a server, the newest first: the request, its user and its result."""

    first_columns = ("Action", "Result", "Message", "Request ID", "Start Time")

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("server", metavar="SERVER", help="name or ID")
        parser.add_argument("--long", action="store_true", help="more columns")
        parser.add_argument(
            "--changes-since", metavar="TIME", help="only what has changed at this time (ISO 8601) or later"
        )
        parser.add_argument("--changes-before", metavar="TIME", help="only what has changed at this time or earlier")
        add_paging(parser, "those after the request with this ID", "REQUEST")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        server = find.server(self.client, parsed_args.server)
        path = f"{COMPUTE}/servers/{part(server['id'])}/os-instance-actions"
        query = {
            "changes-since": parsed_args.changes_since,
            "changes-before": parsed_args.changes_before,
            "marker": parsed_args.marker,
        }
        listed = self.client.pages(path, "instanceActions", limit=parsed_args.limit, **query)
        columns = COLUMNS + LONG_COLUMNS if parsed_args.long else COLUMNS
        return columns, [_row(action)[: len(columns)] for action in listed]


class ServerEventShow(ShowOne):
    """Show what a request has asked of a server; to administrators its events, too."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("server", metavar="SERVER", help="name or ID")
        parser.add_argument("request", metavar="REQUEST", help="ID of the request, as event list shows it")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        server = find.server(self.client, parsed_args.server)
        path = f"{COMPUTE}/servers/{part(server['id'])}/os-instance-actions/{part(parsed_args.request)}"
        return self.dict2columns(self.client.get(path)["instanceAction"])


def _row(action: Json) -> tuple[Any, ...]:
    """Returns the row of an action. A missing result means that the action is in progress."""
    result = action.get("result") or ("Error" if action["message"] else "in progress")
    short = (action["request_id"], action["instance_uuid"], action["action"], action["start_time"], action["user_id"])
    return (*short, result, action.get("finish_time"), action["project_id"], action["message"])
