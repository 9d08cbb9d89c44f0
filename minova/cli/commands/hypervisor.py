"""`minova hypervisor list|show|stats|audit`: the resources, how much of them is used, and whether the records are
right.
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, TextIO

from minova.cli import find
from minova.cli.base import Lister, ShowOne
from minova.cli.client import COMPUTE, Json
from minova.cli.output import hypervisors
from minova.cli.output.columns import KeyValues
from minova.cli.output.hypervisors import Cells, Devices, Moves, PoolLines, PortLines, ServerLines, UnexpectedGuests
from minova.cli.output.usage_bar import Bar, Used
from minova.cli.parser import add_paging

HYPERVISORS = f"{COMPUTE}/os-hypervisors"

COLUMNS = ("ID", "Hypervisor Hostname", "State", "Status", "VCPUs", "RAM MB", "Disk GB", "Servers", "Type", "Host IP")
LONG = (
    "Free RAM MB",
    "Free Disk GB",
    "Disk Available GB",
    "Workload",
    "Version",
    "Service Host",
    "Disabled Reason",
    "Last Audit",
    "Corrected",
    "Orphans",
)
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

    first_columns = ("Hypervisor Hostname", "State", "Last Audit", "Disabled Reason", "Status", "Corrected", "Orphans")

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--matching", metavar="TEXT", help="only with this text in the host name")
        parser.add_argument(
            "--long",
            action="store_true",
            help="also what is free, and when each was audited and how much that corrected",
        )
        add_paging(parser, "those after this one: its name or ID, or its compute service's host", "HYPERVISOR")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        hostname_part = parsed_args.matching or ""
        marker = parsed_args.marker and find.hypervisor(self.client, parsed_args.marker)["id"]
        limit = None if hostname_part else parsed_args.limit
        every = self.client.pages(f"{HYPERVISORS}/detail", "hypervisors", limit=limit, marker=marker)
        names = (hypervisor for hypervisor in every if hostname_part in hypervisor["hypervisor_hostname"])
        matching = list(islice(names, parsed_args.limit))
        if not parsed_args.long:
            return COLUMNS, [_row(hypervisor) for hypervisor in matching]
        audits = {hypervisor["id"]: hypervisor for hypervisor in self.client.get(f"{HYPERVISORS}/audits")["audits"]}
        return COLUMNS + LONG, [
            (*_row(hypervisor), *_long(hypervisor, audits.get(hypervisor["id"], {}))) for hypervisor in matching
        ]


class HypervisorShow(ShowOne):
    """Show a hypervisor: its resources, used and free, what is on it, and its last audit."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("hypervisor", metavar="HYPERVISOR", help="its name or ID, or its compute service's host")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        hypervisor = find.hypervisor(self.client, parsed_args.hypervisor)
        overview = self.client.get(f"{HYPERVISORS}/{hypervisor['id']}/overview")["overview"]
        service = hypervisor.get("service") or {}
        ratios = overview["allocation_ratios"]
        fields = {key: hypervisor.get(key) for key in FIELDS}
        fields |= _bars(hypervisor, ratios, self.app.stdout)
        fields["service_host"] = service.get("host")
        if service.get("disabled_reason"):
            fields["disabled_reason"] = service["disabled_reason"]
        fields["allocation_ratios"] = KeyValues(ratios)
        fields["cpu_info"] = KeyValues(_cpu_info(hypervisor.get("cpu_info")))
        return self.dict2columns(fields | _contents(overview))


class HypervisorStats(ShowOne):
    """Show the sums over all hypervisors whose service is enabled, and how many there are of any kind."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        statistics = self.client.get(f"{HYPERVISORS}/statistics")["hypervisor_statistics"]
        fields = {key: statistics.get(key) for key in STATISTICS}
        fields |= _bars(statistics, {}, self.app.stdout)
        every = list(self.client.pages(HYPERVISORS, "hypervisors"))
        for name, field, value in (
            ("up", "state", "up"),
            ("down", "state", "down"),
            ("disabled", "status", "disabled"),
        ):
            fields[name] = sum(hypervisor.get(field) == value for hypervisor in every)
        return self.dict2columns(fields)


class HypervisorAudit(ShowOne):
    """Audit a hypervisor now: count anew what is used of it, and show what was wrong in the books."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("hypervisor", metavar="HYPERVISOR", help="its name or ID, or its compute service's host")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        hypervisor = find.hypervisor(self.client, parsed_args.hypervisor)
        audit = self.client.post(f"{HYPERVISORS}/{hypervisor['id']}/action", {"audit": None})["audit"]
        name = {"hypervisor_hostname": hypervisor["hypervisor_hostname"]}
        return self.dict2columns(name | hypervisors.of_audit(audit))


def _bars(of: Json, ratios: Json, out: TextIO) -> Json:
    """Returns bars of the usage. A limit is the total times the allocation ratio, if one is known."""
    limits = {"vcpus": "cpu", "memory_mb": "ram", "local_gb": "disk"}
    return {
        f"{what}_used": Bar(of.get(f"{what}_used"), (of.get(what) or 0) * ratios.get(ratio, 1.0), out)
        for what, ratio in limits.items()
    }


def _contents(overview: Json) -> Json:
    names = {server["id"]: server["name"] for server in overview["servers"]}
    fields: Json = {
        "numa_cells": Cells(overview["numa_cells"]),
        "pci_device_pools": PoolLines(overview["pci_device_pools"]),
        "pci_devices": Devices(overview["pci_devices"], names),
        "servers": ServerLines(overview["servers"]),
        # An older minova-api does not return it.
        "bridges": KeyValues(overview.get("bridges") or {}),
        "ports": PortLines(overview.get("ports") or [], names),
    }
    if overview.get("unexpected_guests"):
        fields["unexpected_guests"] = UnexpectedGuests(overview["unexpected_guests"])
    if overview["moves"]:
        fields["moves"] = Moves(overview["moves"])
    if overview.get("metrics"):
        fields["metrics"] = KeyValues({hypervisor["name"]: hypervisor["value"] for hypervisor in overview["metrics"]})
    audit = overview["last_audit"]
    fields["last_audit"] = audit and audit["audited_at"]
    return fields | (hypervisors.of_audit(audit, "last_audit_") if audit else {})


def _long(hypervisor: Json, audit: Json) -> tuple[Any, ...]:
    service = hypervisor.get("service") or {}
    free = ("free_ram_mb", "free_disk_gb", "disk_available_least", "current_workload", "hypervisor_version")
    return (
        *(hypervisor.get(name) for name in free),
        service.get("host"),
        service.get("disabled_reason"),
        *(audit.get(name) for name in ("audited_at", "corrected", "orphans")),
    )


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
    """Returns the CPU info: JSON in a string before microversion 2.28, an object since then."""
    if isinstance(info, str):
        try:
            info = json.loads(info)
        except ValueError:
            return {}
    return info if isinstance(info, dict) else {}
