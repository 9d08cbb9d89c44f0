"""`minova capacity`: how many more servers of a kind fit, where, and what runs out first."""

import argparse
from collections.abc import Iterable

from minova.cli.base import ReportCommand
from minova.cli.client import COMPUTE, Json
from minova.cli.commands.server.create.options import add_request_options, request_body
from minova.cli.output.report import Part
from minova.cli.parser import positive

# The number of hosts in the table; the record contains all.
SHOWN = 50


class CapacityReport(ReportCommand):
    """Show how many more servers of a flavor fit, where, and what runs out first (administrators).

    Takes the options of 'server create' that decide where a server goes. Writes nothing.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_request_options(parser, any_image=True)
        parser.add_argument(
            "--limit",
            type=positive,
            default=1000,
            metavar="N",
            help="try no more than N on each host (default: 1000)",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        body = request_body(self.client, parsed_args)
        path = f"{COMPUTE}/servers/capacity?limit={parsed_args.limit}"
        capacity = self.client.post(path, body)["capacity"]
        self.show(parsed_args, capacity, headline(parsed_args.flavor, capacity), parts(capacity))


def headline(flavor: str, capacity: Json) -> str:
    if capacity["error"]:
        return f"No server of flavor {flavor} fits. {capacity['error']}"
    hosts = [host for host in capacity["hosts"] if host["count"]]
    least = "" if capacity["complete"] else "At least "
    line = f"{least}{capacity['total']} more of flavor {flavor} fit, on {len(hosts)} of {len(capacity['hosts'])} hosts."
    return f"{line} Their server group keeps them on one host." if capacity["one_host"] else line


def parts(capacity: Json) -> list[Part]:
    stopped = [
        (limit["step"], limit["what"], limit["full"], limit["hosts"] - limit["full"]) for limit in capacity["stopped"]
    ]
    more = len(capacity["hosts"]) - SHOWN
    title = f"Hosts, the roomiest first{f' ({more} more with -f json)' if more > 0 else ''}"
    return [
        Part("What stops the next one", ("By", "What", "Hosts now full", "Hosts that take none"), stopped),
        Part(title, ("Host", "Node", "Fit", "Then stopped by", "Reason"), list(_hosts(capacity["hosts"][:SHOWN]))),
    ]


def _hosts(hosts: Iterable[Json]) -> Iterable[tuple[object, ...]]:
    for host in hosts:
        yield host["host"], host["node"], host["count"], host["step"] or "--limit", host["reason"] or ""
