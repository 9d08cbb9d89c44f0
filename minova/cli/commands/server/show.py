"""`minova server list|show`; what else is done with servers has a file of its own."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from minova.cli import find
from minova.cli.base import Lister, ShowOne
from minova.cli.client import COMPUTE, part
from minova.cli.output.servers import COLUMNS, LONG_COLUMNS, Names, OneServer, fields, row
from minova.cli.parser import positive


class ServerList(Lister):
    """List servers, newest first."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--all-projects", action="store_true", help="of every project (administrators)")
        parser.add_argument("--status", help="only with this status: ACTIVE, BUILD, ERROR ...")
        parser.add_argument("--name", metavar="REGEX", help="only with a name that matches")
        parser.add_argument("--host", help="only on this host")
        parser.add_argument("--limit", type=positive, metavar="N", help="at most N of them (default: all)")
        parser.add_argument("--marker", metavar="SERVER", help="those after this one")
        parser.add_argument("--long", action="store_true", help="more columns")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        marker = parsed_args.marker and find.server(self.client, parsed_args.marker)["id"]
        servers = self.client.pages(
            f"{COMPUTE}/servers/detail",
            "servers",
            limit=parsed_args.limit,
            all_tenants=1 if parsed_args.all_projects else None,
            status=parsed_args.status and parsed_args.status.upper(),
            name=parsed_args.name,
            host=parsed_args.host,
            marker=marker,
        )
        names = Names(self.client)
        columns = COLUMNS + LONG_COLUMNS if parsed_args.long else COLUMNS
        return columns, [row(server, names, long=parsed_args.long) for server in servers]


class ServerShow(ShowOne):
    """Show all of a server, and why it failed if it did."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("server", metavar="SERVER", help="name or ID")
        instead = parser.add_mutually_exclusive_group()
        instead.add_argument(
            "--diagnostics", action="store_true", help="what its guest uses now, instead (administrators)"
        )
        instead.add_argument("--topology", action="store_true", help="with its NUMA topology")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        server = find.server(self.client, parsed_args.server)
        path = f"{COMPUTE}/servers/{part(server['id'])}"
        if parsed_args.diagnostics:
            return self.dict2columns(self.client.at("2.48").get(f"{path}/diagnostics"))
        shown = fields(server, OneServer(self.client))
        if parsed_args.topology:
            shown["topology"] = self.client.at("2.78").get(f"{path}/topology")
        return self.dict2columns(shown)
