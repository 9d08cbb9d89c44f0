"""`minova server shelve|unshelve`."""

import argparse
import sys
from collections.abc import Iterable
from typing import Any

from minova.cli.client import COMPUTE, Json, part
from minova.cli.commands.server.actions.action import Goal, ServerActionCommand
from minova.cli.wait import Progress


class ServerShelve(ServerActionCommand):
    """Shelve servers: their guests are stopped, and their root disks become images. Clouds remove them from their hosts at once, or later."""

    key = "shelve"
    status = None
    done = "shelved"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--offload",
            action="store_true",
            help="remove them from their hosts, once they are shelved: for administrators, where the cloud does not do it by itself",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        servers = list(self.find_each(parsed_args).values())
        requests = {
            server["id"]: self.client.request_action(server["id"], {self.key: None}).request_id
            for server in servers
            if server["status"] not in STATUSES
        }
        if not (parsed_args.wait or parsed_args.offload):
            return
        progress = Progress.on(sys.stderr)
        for server in servers:
            self.wait_for(SHELVED, server, requests.get(server["id"]), progress, parsed_args.timeout)
        if parsed_args.offload:
            self._offload(servers, progress, parsed_args)

    def _offload(self, servers: Iterable[Json], progress: Progress, parsed_args: argparse.Namespace) -> None:
        """Offloads the servers that are still on their hosts."""
        now = [dict(self.client.get(f"{COMPUTE}/servers/{part(server['id'])}")["server"]) for server in servers]
        shelved = [server for server in now if server["status"] == "SHELVED"]
        requests = [self.client.request_action(server["id"], {"shelveOffload": None}).request_id for server in shelved]
        for server, request_id in zip(shelved, requests, strict=True) if parsed_args.wait else ():
            self.wait_for(OFFLOADED, server, request_id, progress, parsed_args.timeout)


STATUSES = frozenset({"SHELVED", "SHELVED_OFFLOADED"})
SHELVED = Goal(STATUSES, ServerShelve.done)
OFFLOADED = Goal(frozenset({"SHELVED_OFFLOADED"}), "removed from its host")


class ServerUnshelve(ServerActionCommand):
    """Unshelve servers: their guests run again, on their hosts or, where they were removed from them, on others."""

    key = "unshelve"
    status = "ACTIVE"
    done = "unshelved"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        zones = parser.add_mutually_exclusive_group()
        zones.add_argument("--availability-zone", metavar="ZONE", help="where they are to run, and to stay from now on")
        zones.add_argument(
            "--no-availability-zone",
            action="store_true",
            help="in any zone: they are no longer pinned to one",
        )
        parser.add_argument("--host", help="the host that they are to run on (for administrators)")
        return parser

    def arguments(self, parsed_args: argparse.Namespace) -> Any:
        zone = {"availability_zone": parsed_args.availability_zone} if parsed_args.availability_zone else {}
        unpinned = {"availability_zone": None} if parsed_args.no_availability_zone else {}
        host = {"host": parsed_args.host} if parsed_args.host else {}
        return zone | unpinned | host or None
