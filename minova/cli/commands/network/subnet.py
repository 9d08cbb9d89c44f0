"""`minova subnet create|list|show|set|unset|delete`: the addresses of networks."""

import argparse
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from minova.cli import find
from minova.cli.base import Command, Lister, ShowOne
from minova.cli.client import NETWORK, Json, part
from minova.cli.commands.network import listing, tags
from minova.cli.commands.network.network import without_none
from minova.cli.errors import CliError, UsageError
from minova.cli.output.columns import Words
from minova.cli.parser import add_owner

SUBNETS = f"{NETWORK}/subnets"
MODES = ("slaac", "dhcpv6-stateful", "dhcpv6-stateless")
_SERVICE_TYPE = "only ports with this device owner get its addresses, such as compute:nova; may be repeated"
ROUTE = "destination=CIDR,gateway=ADDRESS"
Shown = tuple[Sequence[str], Iterable[Any]]


class SubnetCreate(ShowOne):
    """Create a subnet of a network."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("--network", required=True, metavar="NETWORK", help="name or ID")
        parser.add_argument("--subnet-range", metavar="CIDR", help="such as 192.0.2.0/24; without it, of a subnet pool")
        pools = parser.add_mutually_exclusive_group()
        pools.add_argument("--subnet-pool", metavar="POOL", help="of which it gets its range; name or ID")
        pools.add_argument("--use-default-subnet-pool", action="store_true", help="of the default one of --ip-version")
        parser.add_argument("--prefix-length", type=int, metavar="BITS", help="of its range; default: the pool's")
        parser.add_argument("--ip-version", type=int, choices=[4, 6], help="default: that of the range or pool, else 4")
        parser.add_argument("--gateway", metavar="ADDRESS", help="an address, none, or auto: the first one (default)")
        parser.add_argument(
            "--allocation-pool",
            action="append",
            type=pool,
            metavar="start=ADDRESS,end=ADDRESS",
            help="which addresses ports get; may be repeated (default: all but the gateway)",
        )
        parser.add_argument("--dns-nameserver", action="append", metavar="ADDRESS", help="may be repeated")
        parser.add_argument("--host-route", action="append", type=route, metavar=ROUTE, help="may be repeated")
        listing.add_switch(
            parser, "dhcp", "dhcp", "no-dhcp", "guests get their addresses by DHCP (default)", "they do not"
        )
        parser.add_argument("--service-type", action="append", metavar="OWNER", help=_SERVICE_TYPE)
        for name, help_text in (
            ("ipv6-ra-mode", "what hosts advertise to guests"),
            ("ipv6-address-mode", "how guests get their addresses; the same"),
        ):
            parser.add_argument(f"--{name}", choices=MODES, help=help_text)
        parser.add_argument("--description", metavar="TEXT")
        tags.add_tags(parser)
        add_owner(parser, "project", "its owner (administrators)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        subnet: Json = {
            **self._range(parsed_args),
            "name": parsed_args.name,
            "network_id": find.network(self.client, parsed_args.network)["id"],
            "description": parsed_args.description,
            "allocation_pools": parsed_args.allocation_pool,
            "dns_nameservers": parsed_args.dns_nameserver,
            "host_routes": parsed_args.host_route,
            "ipv6_ra_mode": parsed_args.ipv6_ra_mode,
            "ipv6_address_mode": parsed_args.ipv6_address_mode,
            "enable_dhcp": parsed_args.dhcp,
            "service_types": parsed_args.service_type,
            "project_id": find.owner(self.client, parsed_args),
        }
        subnet = without_none(subnet)
        if parsed_args.gateway not in (None, "auto"):
            subnet["gateway_ip"] = None if parsed_args.gateway == "none" else parsed_args.gateway
        created_subnet = self.client.post(SUBNETS, {"subnet": subnet})["subnet"]
        return self.dict2columns(fields(tags.add_new(self.client, SUBNETS, created_subnet, parsed_args)))

    def _range(self, parsed_args: argparse.Namespace) -> Json:
        """Returns the fields that say where its range comes from."""
        subnet_range, pool = parsed_args.subnet_range, parsed_args.subnet_pool
        if subnet_range is None and pool is None and not parsed_args.use_default_subnet_pool:
            raise UsageError("Give --subnet-range, --subnet-pool or --use-default-subnet-pool.")
        subnet_pool = None if pool is None else find.subnet_pool(self.client, pool)
        versions = (
            parsed_args.ip_version,
            subnet_range and (6 if ":" in subnet_range else 4),
            subnet_pool and subnet_pool["ip_version"],
        )
        return {
            "ip_version": next((version for version in versions if version), 4),
            "cidr": subnet_range,
            "subnetpool_id": subnet_pool and subnet_pool["id"],
            "use_default_subnetpool": parsed_args.use_default_subnet_pool or None,
            "prefixlen": parsed_args.prefix_length,
        }


class SubnetList(Lister):
    """List subnets."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--network", metavar="NETWORK", help="only of this one; name or ID")
        parser.add_argument("--long", action="store_true", help="also project, DHCP, pools and gateway")
        listing.add_filters(parser)
        listing.add_switch(parser, "dhcp", "dhcp", "no-dhcp", "only those with DHCP", "only the others")
        parser.add_argument("--ip-version", type=int, choices=[4, 6], help="only of this one")
        parser.add_argument("--gateway", metavar="ADDRESS", help="only with this one")
        parser.add_argument("--subnet-range", metavar="CIDR", help="only with this one")
        parser.add_argument("--subnet-pool", metavar="POOL", help="only with a range of it; name or ID")
        parser.add_argument(
            "--service-type", action="append", metavar="OWNER", help="only for such ports; may be repeated"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        columns = ["ID", "Name", "Network", "Subnet"]
        names = ["id", "name", "network_id", "cidr"]
        if parsed_args.long:
            columns += ["Project", "DHCP", "Name Servers", "Allocation Pools", "IP Version", "Gateway"]
            names += ["project_id", "enable_dhcp", "dns_nameservers", "allocation_pools", "ip_version", "gateway_ip"]
        network = find.network(self.client, parsed_args.network)["id"] if parsed_args.network else None
        pool = find.subnet_pool(self.client, parsed_args.subnet_pool)["id"] if parsed_args.subnet_pool else None
        pages = self.client.pages(
            SUBNETS,
            "subnets",
            network_id=network,
            subnetpool_id=pool,
            enable_dhcp=parsed_args.dhcp,
            ip_version=parsed_args.ip_version,
            gateway_ip=parsed_args.gateway,
            cidr=parsed_args.subnet_range,
            **listing.filters(self, parsed_args),
        )
        # Neutron has no such filter.
        service_types = set(parsed_args.service_type or ())
        rows = [fields(subnet) for subnet in pages if not service_types or service_types & set(subnet["service_types"])]
        return columns, [tuple(row[name] for name in names) for row in rows]


class SubnetShow(ShowOne):
    """Show a subnet."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("subnet", metavar="SUBNET", help="name or ID")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        return self.dict2columns(fields(find.subnet(self.client, parsed_args.subnet)))


class SubnetSet(Command):
    """Change a subnet. Resolvers, pools and routes are added to those that it has, unless a --no- option removes these."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("subnet", metavar="SUBNET", help="name or ID")
        parser.add_argument("--name", metavar="NAME")
        parser.add_argument("--description", metavar="TEXT")
        parser.add_argument("--gateway", metavar="ADDRESS", help="an address, or none")
        listing.add_switch(parser, "dhcp", "dhcp", "no-dhcp", "guests get their addresses by DHCP", "they do not")
        for option, (kind, metavar, _, what) in _LISTS.items():
            # OpenStack's client has one of them in the plural.
            removals = [f"--no-{option}", *(["--no-dns-nameservers"] if option == "dns-nameserver" else ())]
            parser.add_argument(f"--{option}", action="append", type=kind, metavar=metavar, help="may be repeated")
            parser.add_argument(*removals, action="store_true", help=f"remove its {what} first")
        parser.add_argument("--service-type", action="append", metavar="OWNER", help=_SERVICE_TYPE)
        tags.add_tags(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        changes = without_none(
            {"name": parsed_args.name, "description": parsed_args.description, "enable_dhcp": parsed_args.dhcp}
        )
        if parsed_args.gateway is not None:
            changes["gateway_ip"] = None if parsed_args.gateway == "none" else parsed_args.gateway
        subnet = find.subnet(self.client, parsed_args.subnet)
        for option, (_, _, field, _) in _LISTS.items():
            name = option.replace("-", "_")
            added, clears = getattr(parsed_args, name), getattr(parsed_args, f"no_{name}")
            if added is not None or clears:
                former_entries = [] if clears else subnet[field]
                changes[field] = [*former_entries, *(entry for entry in added or () if entry not in former_entries)]
        if parsed_args.service_type:
            changes["service_types"] = [*dict.fromkeys([*subnet["service_types"], *parsed_args.service_type])]
        if not (changes or tags.is_given(parsed_args)):
            raise UsageError("Say what is to be set, such as --name or --no-dhcp.")
        if changes:
            self.client.put(f"{SUBNETS}/{part(subnet['id'])}", {"subnet": changes})
        tags.change(self.client, SUBNETS, subnet, parsed_args)


class SubnetUnset(Command):
    """Remove resolvers, pools, routes, service types, the gateway or tags from a subnet."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("subnet", metavar="SUBNET", help="name or ID")
        for option, (kind, metavar, *_) in _REMOVABLE.items():
            parser.add_argument(f"--{option}", action="append", type=kind, metavar=metavar, help="may be repeated")
        parser.add_argument("--gateway", action="store_true", help="it has none")
        tags.add_removal(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        subnet = find.subnet(self.client, parsed_args.subnet)
        changes: Json = {"gateway_ip": None} if parsed_args.gateway else {}
        for option, (_, _, field, what) in _REMOVABLE.items():
            entries_to_remove = getattr(parsed_args, option.replace("-", "_"))
            absent = [entry for entry in entries_to_remove or () if entry not in subnet[field]]
            if absent:
                raise CliError(f"The subnet's {what} have no {absent[0]}.")
            if entries_to_remove:
                changes[field] = [entry for entry in subnet[field] if entry not in entries_to_remove]
        if changes:
            self.client.put(f"{SUBNETS}/{part(subnet['id'])}", {"subnet": changes})
        if not (tags.remove(self.client, SUBNETS, subnet, parsed_args) or changes):
            raise UsageError("Say what is to go, such as --dns-nameserver or --tag.")


class SubnetDelete(Command):
    """Delete subnets. One of which ports have addresses stays."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("subnets", nargs="+", metavar="SUBNET", help="name or ID; if one is unknown, none goes")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        subnets = {subnet["id"] for subnet in [find.subnet(self.client, name) for name in parsed_args.subnets]}
        for identity in sorted(subnets):
            self.client.delete(f"{SUBNETS}/{part(identity)}")


def pool(text: str) -> Json:
    """Parses `start=ADDRESS,end=ADDRESS`, as in OpenStack's client."""
    pairs = dict(pair.partition("=")[::2] for pair in text.split(","))
    if pairs.keys() != {"start", "end"}:
        raise UsageError(f"'{text}' is not a pool such as start=192.0.2.10,end=192.0.2.20.")
    return pairs


def route(text: str) -> Json:
    """Parses `destination=CIDR,gateway=ADDRESS`, as in OpenStack's client."""
    pairs = dict(pair.partition("=")[::2] for pair in text.split(","))
    if pairs.keys() != {"destination", "gateway"}:
        raise UsageError(f"'{text}' is not a route such as {ROUTE}.")
    return {"destination": pairs["destination"], "nexthop": pairs["gateway"]}


# By option: its type, what it takes, the field, and what a list of it is called.
_LISTS: dict[str, tuple[Callable[[str], Any], str, str, str]] = {
    "dns-nameserver": (str, "ADDRESS", "dns_nameservers", "resolvers"),
    "allocation-pool": (pool, "start=ADDRESS,end=ADDRESS", "allocation_pools", "pools"),
    "host-route": (route, ROUTE, "host_routes", "routes"),
}
_REMOVABLE: dict[str, tuple[Callable[[str], Any], str, str, str]] = {
    **_LISTS,
    "service-type": (str, "OWNER", "service_types", "service types"),
}


def fields(subnet: Json) -> dict[str, Any]:
    pools = [f"{entry['start']}-{entry['end']}" for entry in subnet["allocation_pools"]]
    routes = [f"{entry['destination']} via {entry['nexthop']}" for entry in subnet["host_routes"]]
    return {
        **subnet,
        "allocation_pools": Words(pools),
        "dns_nameservers": Words(subnet["dns_nameservers"]),
        "host_routes": Words(routes),
        "service_types": Words(subnet["service_types"]),
        "tags": Words(subnet["tags"]),
    }
