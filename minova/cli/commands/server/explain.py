"""`minova server explain`: why the scheduler chose a server's host, or none."""

import argparse

from minova.cli import find
from minova.cli.base import ReportCommand
from minova.cli.client import COMPUTE, Json, part
from minova.cli.errors import ApiError, CliError
from minova.cli.output import diagnosis as decision


class ServerExplain(ReportCommand):
    """Show the scheduler's decision on a server.

    Hosts before and after each filter, why each lost host was lost, the weights of those left, and what was tried.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("server", metavar="SERVER", help="name or ID")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        server = find.server(self.client, parsed_args.server)
        diagnosis = self._diagnosis(server)
        self.show(parsed_args, diagnosis, headline(server, diagnosis), decision.parts(diagnosis))

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
    """Returns the result in one line. Only administrators see the host."""
    hosts = diagnosis.get("hosts", 0)
    host_count = f"{hosts} host{'' if hosts == 1 else 's'}"
    if diagnosis.get("error"):
        return f"Server {server['name']}: {host_count}, none chosen. {diagnosis['error']}"
    chosen = _chosen_for(server["id"], diagnosis)
    return f"Server {server['name']}: {host_count}, {f'chosen: {chosen}' if chosen else 'one chosen'}."


def _chosen_for(uuid: str, diagnosis: Json) -> str:
    """Returns the place (host, node) of this instance; `selected` is in the order of the instances."""
    pairs = zip(diagnosis.get("instance_uuids", []), diagnosis.get("selected", []), strict=False)
    return next((decision.place(host, node) for instance_uuid, (host, node) in pairs if instance_uuid == uuid), "")
