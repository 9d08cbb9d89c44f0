"""`minova server list|show`; the other commands of servers are in their own files."""

import argparse
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from minova.cli import find
from minova.cli.base import Lister, ShowOne
from minova.cli.client import COMPUTE, part
from minova.cli.commands.server.filters import add_filters, named_on_hosts, query_of
from minova.cli.output.servers import COLUMNS, LONG_COLUMNS, EachName, Names, NoNames, OneServer, fields, row


class ServerList(Lister):
    """List servers, newest first."""

    first_columns = ("ID", "Name", "Status", "Power State", "Task State")

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_filters(parser)
        parser.add_argument("--long", action="store_true", help="more columns")
        names = parser.add_mutually_exclusive_group()
        names.add_argument(
            "-n",
            "--no-name-lookup",
            action="store_true",
            help="IDs of images instead of names, without asking for those",
        )
        names.add_argument(
            "--name-lookup-one-by-one", action="store_true", help="ask only for the images of these servers, one by one"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        query = query_of(self.client, parsed_args)
        path = f"{COMPUTE}/servers/detail"
        if parsed_args.instance_name is None:
            servers = self.client.pages(path, "servers", limit=parsed_args.limit, **query)
        else:
            servers_on_hosts = named_on_hosts(self.client.pages(path, "servers", **query), parsed_args.instance_name)
            servers = islice(servers_on_hosts, parsed_args.limit)
        kinds = {parsed_args.no_name_lookup: NoNames, parsed_args.name_lookup_one_by_one: EachName}
        names = kinds.get(True, Names)(self.client)
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
        fields_of_server = fields(server, OneServer(self.client))
        if parsed_args.topology:
            fields_of_server["topology"] = self.client.at("2.78").get(f"{path}/topology")
        return self.dict2columns(fields_of_server)
