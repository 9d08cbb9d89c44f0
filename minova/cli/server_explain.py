"""`minova server explain`: why a server went where it went, or nowhere."""

import argparse
from collections.abc import Sequence
from typing import Any

from cliff.formatters.json_format import JSONFormatter
from cliff.formatters.table import TableFormatter
from cliff.formatters.yaml_format import YAMLFormatter

from minova.cli import find
from minova.cli.client import COMPUTE, Json, part
from minova.cli.command import Command, Formatters
from minova.cli.errors import ApiError, CliError

Table = tuple[str, Sequence[str], list[tuple[Any, ...]]]


class ServerExplain(Command):
    """Show the scheduler's decision on a server.

    Hosts before and after each filter, why each lost host was lost, the weights of those left.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("server", metavar="SERVER", help="name or ID")
        parser.add_argument(
            "-f",
            "--format",
            choices=["json", "table", "yaml"],
            default="table",
            dest="formatter",
            help="json and yaml give the whole record (default: table)",
        )
        self._formatters = Formatters(json=JSONFormatter(), table=TableFormatter(), yaml=YAMLFormatter())
        for formatter in self._formatters:
            formatter.obj.add_argument_group(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        server = find.server(self.client, parsed_args.server)
        diagnosis = self._diagnosis(server)
        formatter = self._formatters[parsed_args.formatter].obj
        if parsed_args.formatter != "table":
            formatter.emit_one(tuple(diagnosis), tuple(diagnosis.values()), self.app.stdout, parsed_args)
            return
        out = self.app.stdout
        out.write(headline(server, diagnosis) + "\n")
        for title, columns, rows in tables(diagnosis):
            out.write(f"\n{title}\n")
            formatter.emit_list(columns, rows, out, parsed_args)

    def _diagnosis(self, server: Json) -> Json:
        try:
            answer = self.client.get(f"{COMPUTE}/servers/{part(server['id'])}/diagnosis")
        except ApiError as error:
            if error.status == 404:
                raise CliError(
                    f"There is no record of a scheduler's decision on server {server['name']} "
                    f"({server['status']}): it was not scheduled yet, or the record has expired."
                ) from None
            raise
        return dict(answer.get("diagnosis", answer))


def headline(server: Json, diagnosis: Json) -> str:
    """What came of it, in one line."""
    hosts = diagnosis.get("hosts", 0)
    known = f"{hosts} host{'' if hosts == 1 else 's'}"
    if diagnosis.get("error"):
        return f"Server {server['name']}: {known}, none chosen. {diagnosis['error']}"
    chosen = _chosen_for(server["id"], diagnosis)
    return f"Server {server['name']}: {known}, chosen: {chosen or 'none'}."


def tables(diagnosis: Json) -> list[Table]:
    """Filters, lost hosts and weights, each left out when it has no row."""
    steps = diagnosis.get("steps", [])
    filters = [(step["name"], step["before"], step["after"], step["before"] - step["after"]) for step in steps]
    lost = [
        (host["host"], host["node"], step["name"], host["reason"]) for step in steps for host in step.get("lost", [])
    ]
    weighed = diagnosis.get("weighed", [])
    weighers = sorted({name for host in weighed for name in host.get("weights", {})})
    weights = [
        (host["host"], host["node"], _rounded(host["weight"]))
        + tuple(_rounded(host.get("weights", {}).get(name)) for name in weighers)
        for host in weighed
    ]
    every: list[Table] = [
        ("Filters, in their order", ("Filter", "Before", "After", "Lost"), filters),
        ("Hosts that were lost", ("Host", "Node", "Filter", "Reason"), lost),
        ("Weights of the best", ("Host", "Node", "Weight", *weighers), weights),
    ]
    return [table for table in every if table[2]]


def _chosen_for(uuid: str, diagnosis: Json) -> str:
    """The (host, node) of this instance; `selected` is in the order of the instances."""
    pairs = zip(diagnosis.get("instance_uuids", []), diagnosis.get("selected", []), strict=False)
    for instance_uuid, (host, node) in pairs:
        if instance_uuid == uuid:
            return str(host) if host == node else f"{host} ({node})"
    return ""


def _rounded(weight: float | None) -> str:
    return "" if weight is None else f"{weight:.4g}"
