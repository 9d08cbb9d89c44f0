"""The contents of a hypervisor: lines on a terminal, the value itself in machine-readable formats."""

from typing import Any

from cliff.columns import FormattableColumn

from minova.cli.client import Json
from minova.cli.output.columns import printable


class Lines(FormattableColumn[Any]):
    """A list or mapping: one line for each item on a terminal, the value itself in machine-readable formats."""

    def human_readable(self) -> str:
        items = self._value.items() if isinstance(self._value, dict) else self._value
        return "\n".join(printable(self.line(item)) for item in items)

    def line(self, item: Any) -> str:
        return str(item)


class Cells(Lines):
    def line(self, item: Json) -> str:
        parts = [f"cell {item['id']}: memory {item['memory_mb_used']} of {item['memory_mb']} MB"]
        if item["shared_cpus"]:
            parts.append(f"shared CPUs {cpus(item['shared_cpus'])} with {item['shared_vcpus_used']} vCPUs")
        parts.append(f"pinned CPUs {cpus(item['pinned_cpus'])}, free {cpus(item['free_cpus'])}")
        return "; ".join([*parts, *map(_pages, item["pages"])])


def _pages(pages: Json) -> str:
    reserved = f", {pages['reserved']} kept" if pages["reserved"] else ""
    return f"{pages['size_kb']} KiB pages: {pages['used']} of {pages['total']} used{reserved}"


class PoolLines(Lines):
    def line(self, item: Json) -> str:
        return f"{_kind(item)}: {item['count']} free{_tags(item)}"


class Devices(Lines):
    """`servers`: names by id. If the server of a device has no name there, its id is shown."""

    def __init__(self, devices: Any, servers: dict[str, str]) -> None:
        super().__init__(devices)
        self._servers = servers

    def line(self, item: Json) -> str:
        owner = item["instance_uuid"]
        whose = f" by {self._servers.get(owner, owner)}" if owner else ""
        return f"{item['address']} {_kind(item)}: {item['status']}{whose}"


class ServerLines(Lines):
    def line(self, item: Json) -> str:
        doing = f" ({item['task_state']})" if item["task_state"] else ""
        size = f"{item['vcpus']} vCPUs, {item['memory_mb']} MB, {item['disk_gb']} GB"
        return f"{item['id']} {item['name']}: {item['status']}{doing}, {size}"


class PortLines(Lines):
    """`servers`: names by id."""

    def __init__(self, ports: Any, servers: dict[str, str]) -> None:
        super().__init__(ports)
        self._servers = servers

    def line(self, item: Json) -> str:
        on = f", on {item['segment']}" if item["segment"] else ""
        network = f"{item['network_name'] or item['network_id']} ({item['network_type']}{on})"
        addresses = " ".join(item["fixed_ips"]) or "no address"
        return f"{item['id']} of {self._servers.get(item['server_id'], item['server_id'])}: {item['mac_address']}, {addresses} on {network}"


class Moves(Lines):
    def line(self, item: Json) -> str:
        way = f"{item['source_node']} to {item['dest_node']}"
        return f"{item['server_id']}: {item['migration_type']} from {way}, {item['status']}"


class UnexpectedGuests(Lines):
    def line(self, item: Json) -> str:
        name = f" ({item['name']})" if item["name"] else ""
        return f"{item['id']}{name}, {item['power_state']}: {item['why']}"


class Corrections(Lines):
    """Corrected figures and allocations. For an allocation the text describes the error and the correction."""

    def line(self, item: Json) -> str:
        if item["figure"] == "allocations":
            return f"allocations: {item['kept']}: {item['found']}"
        return f"{item['figure']}: was {item['kept']}, is {item['found']}"

    def human_readable(self) -> str:
        return super().human_readable() or "nothing"


class Orphans(Lines):
    def line(self, item: tuple[str, int]) -> str:
        return f"{item[0]}: {item[1]} MB"


# Lists of an audit that have another name in the responses of the API.
_TITLES = {"strays": "unexpected_domains"}


def of_audit(audit: Json, prefix: str = "") -> Json:
    """Returns the rows of an audit: always the corrections, and the other lists unless they are empty."""
    rows: Json = {f"{prefix}corrected": Corrections(audit["corrected"])}
    lists = {"conflicts": Lines, "orphans": Orphans, "strays": Lines, "power_states": Lines}
    rows.update(
        {f"{prefix}{_TITLES.get(name, name)}": kind(audit[name]) for name, kind in lists.items() if audit.get(name)}
    )
    return rows


def cpus(numbers: list[int]) -> str:
    """Returns the numbers as `0-3,7`, or `none`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs) or "none"


def _kind(item: Json) -> str:
    cell = "" if item["numa_node"] is None else f" of cell {item['numa_node']}"
    return f"{item['vendor_id']}:{item['product_id']} {item['dev_type']}{cell}"


def _tags(item: Json) -> str:
    return "".join(f", {name}={value}" for name, value in item["tags"])
