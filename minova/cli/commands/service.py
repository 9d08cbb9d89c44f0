"""`minova service list|delete|set`."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from minova.cli.base import Command, Lister
from minova.cli.client import COMPUTE, Json
from minova.cli.errors import ApiError, CliError, UsageError

COLUMNS = ("ID", "Binary", "Host", "Zone", "Status", "State", "Updated At")
LONG_COLUMNS = (*COLUMNS, "Disabled Reason", "Forced Down")


class ServiceList(Lister):
    """List minova's services and whether they are up; "in doubt": many fell silent together, and they count as up."""

    first_columns = ("Host", "Disabled Reason", "Binary", "State")

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--host", help="only on this host")
        parser.add_argument("--service", metavar="BINARY", help="only this kind: minova-compute, or nova-compute")
        parser.add_argument(
            "--long", action="store_true", help="also why one is disabled, and whether it is forced down"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        services = self.client.pages(
            f"{COMPUTE}/os-services", "services", host=parsed_args.host, binary=parsed_args.service
        )
        if not parsed_args.long:
            return COLUMNS, [_row(service) for service in services]
        return LONG_COLUMNS, [
            (*_row(service), service.get("disabled_reason"), service.get("forced_down")) for service in services
        ]


class ServiceDelete(Command):
    """Remove services for good: stop their processes first, or they register anew."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "services",
            nargs="+",
            metavar="ID",
            help="as 'minova service list' has it; a compute must have no instances",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        failed = []
        for identity in parsed_args.services:
            try:
                self.client.delete(f"{COMPUTE}/os-services/{identity}")
            except ApiError as error:
                failed.append(f"Service {identity} was not deleted: {error}")
        if failed:
            raise CliError("\n".join(failed))


class ServiceSet(Command):
    """Enable or disable a service, or say that a compute is down for certain."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("host", metavar="HOST")
        parser.add_argument(
            "binary", metavar="BINARY", nargs="?", default="minova-compute", help="default: minova-compute"
        )
        switch = parser.add_mutually_exclusive_group()
        switch.add_argument("--enable", action="store_true", help="it gets new servers again")
        switch.add_argument("--disable", action="store_true", help="it gets no new servers")
        parser.add_argument("--disable-reason", metavar="REASON", help="for other people; only with --disable")
        force = parser.add_mutually_exclusive_group()
        force.add_argument(
            "--down",
            dest="forced_down",
            action="store_true",
            default=None,
            help="it is down, whatever it reports: its host is switched off for certain",
        )
        force.add_argument("--up", dest="forced_down", action="store_false", help="what it reports counts again")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        if not (parsed_args.enable or parsed_args.disable) and parsed_args.forced_down is None:
            raise UsageError("Say what is to be set: --enable, --disable, --down or --up.")
        if parsed_args.disable_reason and not parsed_args.disable:
            raise UsageError("--disable-reason goes with --disable.")
        host, binary = parsed_args.host, ours(parsed_args.binary)
        services = self.client.get(f"{COMPUTE}/os-services")["services"]
        if not any(service["host"] == host and service["binary"] == binary for service in services):
            raise CliError(f"There is no {binary} on host '{host}'. 'minova service list' shows what there is.")
        body = {"host": host, "binary": binary}
        if parsed_args.enable:
            self.client.put(f"{COMPUTE}/os-services/enable", body)
        elif parsed_args.disable_reason:
            reason = {"disabled_reason": parsed_args.disable_reason}
            self.client.put(f"{COMPUTE}/os-services/disable-log-reason", body | reason)
        elif parsed_args.disable:
            self.client.put(f"{COMPUTE}/os-services/disable", body)
        if parsed_args.forced_down is not None:
            self.client.at("2.11").put(
                f"{COMPUTE}/os-services/force-down", {**body, "forced_down": parsed_args.forced_down}
            )


def ours(binary: str) -> str:
    """Returns minova's name of a service: OpenStack's clients use names such as nova-compute."""
    return f"minova-{binary.removeprefix('nova-')}" if binary.startswith("nova-") else binary


def _row(service: Json) -> tuple[Any, ...]:
    return (
        service.get("id"),
        service["binary"],
        service["host"],
        service.get("zone"),
        service["status"],
        "in doubt" if service.get("in_doubt") else service["state"],
        service.get("updated_at"),
    )
