"""`minova aggregate ...`: groups of hosts with common metadata, which also define availability zones."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from minova.cli import find
from minova.cli.base import Command, Lister, ShowOne
from minova.cli.client import COMPUTE, Json
from minova.cli.errors import UsageError
from minova.cli.output.columns import KeyValues, Words
from minova.cli.parser import add_key_values

AGGREGATES = f"{COMPUTE}/os-aggregates"
ZONE = "availability_zone"
COLUMNS = ("ID", "Name", "Availability Zone", "Hosts", "Properties")
LONG_COLUMNS = ("UUID", "Created At", "Updated At")
Shown = tuple[Sequence[str], Iterable[Any]]


class AggregateCreate(ShowOne):
    """Create an aggregate: hosts with properties in common, or a zone."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="NAME")
        _add_changes(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        aggregate: Json = {"name": parsed_args.name}
        if parsed_args.zone is not None:
            aggregate[ZONE] = parsed_args.zone
        created_aggregate = self.client.post(AGGREGATES, {"aggregate": aggregate})["aggregate"]
        if parsed_args.property:
            created_aggregate = _act(self, created_aggregate, "set_metadata", metadata=dict(parsed_args.property))
        return self.dict2columns(fields(created_aggregate))


class AggregateList(Lister):
    """List aggregates with their hosts."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--host", help="only those that this host is in")
        parser.add_argument("--availability-zone", metavar="ZONE", help="only those of this zone")
        parser.add_argument("--long", action="store_true", help="more columns")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        host, zone = parsed_args.host, parsed_args.availability_zone
        records = [
            record
            for record in self.client.get(AGGREGATES)["aggregates"]
            if (host is None or host in (record.get("hosts") or ())) and (zone is None or record.get(ZONE) == zone)
        ]
        columns = COLUMNS + LONG_COLUMNS if parsed_args.long else COLUMNS
        names = [column.lower().replace(" ", "_") for column in columns]
        return columns, [tuple(fields(record)[name] for name in names) for record in records]


class AggregateShow(ShowOne):
    """Show an aggregate."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _with_aggregate(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        return self.dict2columns(fields(find.aggregate(self.client, parsed_args.aggregate)))


class AggregateSet(Command):
    """Set an aggregate's name, zone or properties."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = _with_aggregate(super().get_parser(prog_name))
        parser.add_argument("--name", help="its new name")
        _add_changes(parser)
        parser.add_argument(
            "--no-property", action="store_true", help="unset all properties; with --property those are the only ones"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        changes = {key: value for key, value in (("name", parsed_args.name), (ZONE, parsed_args.zone)) if value}
        if not (changes or parsed_args.property or parsed_args.no_property):
            raise UsageError("Say what to set: --name, --zone, --property or --no-property.")
        aggregate = find.aggregate(self.client, parsed_args.aggregate)
        if changes:
            self.client.put(f"{AGGREGATES}/{aggregate['id']}", {"aggregate": changes})
        # The zone is stored as a property, too, and stays.
        old = {*(aggregate.get("metadata") or {})} - {ZONE} if parsed_args.no_property else ()
        metadata = dict.fromkeys(sorted(old)) | dict(parsed_args.property)
        if metadata:
            _act(self, aggregate, "set_metadata", metadata=metadata)


class AggregateUnset(Command):
    """Unset properties of an aggregate."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = _with_aggregate(super().get_parser(prog_name))
        parser.add_argument(
            "--property", action="append", required=True, metavar="KEY", help="property to unset; may be repeated"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        aggregate = find.aggregate(self.client, parsed_args.aggregate)
        _act(self, aggregate, "set_metadata", metadata=dict.fromkeys(parsed_args.property))


class AggregateCacheImage(Command):
    """Let the hosts of an aggregate fetch images before servers need them. It does not wait for them."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = _with_aggregate(super().get_parser(prog_name))
        parser.add_argument("image", nargs="+", metavar="IMAGE", help="name or ID")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        aggregate = find.aggregate(self.client, parsed_args.aggregate)
        images = dict.fromkeys(find.image(self.client, name)["id"] for name in parsed_args.image)
        self.client.post(f"{AGGREGATES}/{aggregate['id']}/images", {"cache": [{"id": image} for image in images]})


class AggregateDelete(Command):
    """Delete aggregates that have no hosts."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "aggregates", nargs="+", metavar="AGGREGATE", help="name or ID; if one is unknown, none goes"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        records = {record["id"] for record in [find.aggregate(self.client, name) for name in parsed_args.aggregates]}
        for identity in sorted(records):
            self.client.delete(f"{AGGREGATES}/{identity}")


class _Hosts(ShowOne):
    _action = ""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = _with_aggregate(super().get_parser(prog_name))
        parser.add_argument(
            "host", metavar="HOST", help="the host of a compute service, as 'minova service list' has it"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        aggregate = find.aggregate(self.client, parsed_args.aggregate)
        return self.dict2columns(fields(_act(self, aggregate, self._action, host=parsed_args.host)))


class AggregateAddHost(_Hosts):
    """Add a host to an aggregate, and by that to its zone."""

    _action = "add_host"


class AggregateRemoveHost(_Hosts):
    """Remove a host from an aggregate."""

    _action = "remove_host"


class ZoneList(Lister):
    """List availability zones."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--long", action="store_true", help="also their hosts and services (administrators)")
        parser.add_argument("--compute", action="store_true", help="those of computes, which are all there are")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        path = f"{COMPUTE}/os-availability-zone"
        columns = ("Zone Name", "Zone Status")
        records = self.client.get(f"{path}/detail" if parsed_args.long else path)["availabilityZoneInfo"]
        if not parsed_args.long:
            return columns, [_zone(record) for record in records]
        rows: list[tuple[Any, ...]] = []
        for record in records:
            hosts = record.get("hosts") or {"": {"": {}}}
            for host, services in sorted(hosts.items()):
                rows += [(*_zone(record), host, binary, _service(state)) for binary, state in sorted(services.items())]
        return (*columns, "Host Name", "Service Name", "Service Status"), rows


def _zone(zone: Json) -> tuple[str, str]:
    return zone["zoneName"], "available" if zone["zoneState"]["available"] else "not available"


def _service(state: Json) -> str:
    if not state:
        return ""
    up = "up" if state.get("available") else "down"
    return f"{'enabled' if state.get('active') else 'disabled'}, {up} {state.get('updated_at') or ''}".rstrip()


def fields(aggregate: Json) -> dict[str, Any]:
    """Returns the fields with the names of OpenStack's client. The zone is also a property, and is shown only once."""
    metadata = {key: value for key, value in (aggregate.get("metadata") or {}).items() if key != ZONE}
    return {
        "id": aggregate["id"],
        "uuid": aggregate.get("uuid"),
        "name": aggregate["name"],
        "availability_zone": aggregate.get(ZONE),
        "hosts": Words(aggregate.get("hosts") or []),
        "properties": KeyValues(metadata),
        "created_at": aggregate.get("created_at"),
        "updated_at": aggregate.get("updated_at"),
    }


def _with_aggregate(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("aggregate", metavar="AGGREGATE", help="name or ID")
    return parser


def _add_changes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--zone", metavar="ZONE", help="makes its hosts the hosts of this availability zone")
    add_key_values(parser, "--property", "metadata, which filters look at; may be repeated")


def _act(command: Command, aggregate: Json, action: str, **arguments: Any) -> Json:
    path = f"{AGGREGATES}/{aggregate['id']}/action"
    return dict(command.client.post(path, {action: arguments})["aggregate"])
