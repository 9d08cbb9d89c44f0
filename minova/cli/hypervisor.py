"""`minova hypervisor list|show|stats`: what there is, and how much of it is used."""

import argparse
import json
from collections.abc import Iterable, Sequence
from typing import Any

from minova.cli import find
from minova.cli.client import COMPUTE, Json
from minova.cli.command import KeyValues, Lister, ShowOne

COLUMNS = ("ID", "Hypervisor Hostname", "State", "Status", "VCPUs", "RAM MB", "Disk GB", "Servers", "Type", "Host IP")
USAGE = (
    "vcpus",
    "vcpus_used",
    "memory_mb",
    "memory_mb_used",
    "free_ram_mb",
    "local_gb",
    "local_gb_used",
    "free_disk_gb",
    "disk_available_least",
    "running_vms",
    "current_workload",
)
FIELDS = (
    "id",
    "hypervisor_hostname",
    "hypervisor_type",
    "hypervisor_version",
    "host_ip",
    "state",
    "status",
    *USAGE,
)
STATISTICS = ("count", *USAGE)


class HypervisorList(Lister):
    """List hypervisors with what is used of each."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--matching", metavar="TEXT", help="only with this text in the host name")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        found = self.client.pages(f"{COMPUTE}/os-hypervisors/detail", "hypervisors")
        wanted = parsed_args.matching or ""
        return COLUMNS, [_row(one) for one in found if wanted in one["hypervisor_hostname"]]


class HypervisorShow(ShowOne):
    """Show a hypervisor: its resources, used and free."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("hypervisor", metavar="HYPERVISOR", help="its name or ID, or its compute service's host")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        hypervisor = find.hypervisor(self.client, parsed_args.hypervisor)
        service = hypervisor.get("service") or {}
        shown = {key: hypervisor.get(key) for key in FIELDS}
        shown["service_host"] = service.get("host")
        if service.get("disabled_reason"):
            shown["disabled_reason"] = service["disabled_reason"]
        shown["cpu_info"] = KeyValues(_cpu_info(hypervisor.get("cpu_info")))
        return self.dict2columns(shown)


class HypervisorStats(ShowOne):
    """Show the sums over all hypervisors."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        statistics = self.client.get(f"{COMPUTE}/os-hypervisors/statistics")["hypervisor_statistics"]
        return STATISTICS, [statistics.get(key) for key in STATISTICS]


class Used(KeyValues):
    """`3/8` for people, both numbers for programs."""

    def human_readable(self) -> str:
        return f"{self._value['used']}/{self._value['total']}"


def _row(hypervisor: Json) -> tuple[Any, ...]:
    def used(what: str) -> Used:
        return Used({"used": hypervisor.get(f"{what}_used"), "total": hypervisor.get(what)})

    return (
        hypervisor["id"],
        hypervisor["hypervisor_hostname"],
        hypervisor.get("state"),
        hypervisor.get("status"),
        used("vcpus"),
        used("memory_mb"),
        used("local_gb"),
        hypervisor.get("running_vms"),
        hypervisor.get("hypervisor_type"),
        hypervisor.get("host_ip"),
    )


def _cpu_info(info: Any) -> Json:
    """JSON in a string before microversion 2.28, an object since."""
    if isinstance(info, str):
        try:
            info = json.loads(info)
        except ValueError:
            return {}
    return info if isinstance(info, dict) else {}
