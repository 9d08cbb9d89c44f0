"""`minova subnet create|list|show|delete`: the addresses of networks."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from minova.cli import find
from minova.cli.base import Command, Lister, ShowOne
from minova.cli.client import NETWORK, Json, part
from minova.cli.commands.network import without_none
from minova.cli.errors import UsageError
from minova.cli.output.columns import Words

SUBNETS = f"{NETWORK}/subnets"
Shown = tuple[Sequence[str], Iterable[Any]]


class SubnetCreate(ShowOne):
    """Create a subnet of a network."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("--network", required=True, metavar="NETWORK", help="name or ID")
        parser.add_argument("--subnet-range", required=True, metavar="CIDR", help="such as 192.0.2.0/24")
        parser.add_argument("--gateway", metavar="ADDRESS", help="an address, none, or auto: the first one (default)")
        parser.add_argument(
            "--allocation-pool",
            action="append",
            type=pool,
            metavar="start=ADDRESS,end=ADDRESS",
            help="which addresses ports get; may be repeated (default: all but the gateway)",
        )
        parser.add_argument("--dns-nameserver", action="append", metavar="ADDRESS", help="may be repeated")
        parser.add_argument("--no-dhcp", action="store_true", help="guests get no addresses by DHCP")
        parser.add_argument("--description", metavar="TEXT")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        subnet: Json = {
            "name": parsed_args.name,
            "network_id": find.network(self.client, parsed_args.network)["id"],
            "ip_version": 6 if ":" in parsed_args.subnet_range else 4,
            "cidr": parsed_args.subnet_range,
            "description": parsed_args.description,
            "allocation_pools": parsed_args.allocation_pool,
            "dns_nameservers": parsed_args.dns_nameserver,
            "enable_dhcp": False if parsed_args.no_dhcp else None,
        }
        subnet = without_none(subnet)
        if parsed_args.gateway not in (None, "auto"):
            subnet["gateway_ip"] = None if parsed_args.gateway == "none" else parsed_args.gateway
        return self.dict2columns(fields(self.client.post(SUBNETS, {"subnet": subnet})["subnet"]))


class SubnetList(Lister):
    """List subnets."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--network", metavar="NETWORK", help="only of this one; name or ID")
        parser.add_argument("--long", action="store_true", help="also project, DHCP, pools and gateway")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        columns = ["ID", "Name", "Network", "Subnet"]
        names = ["id", "name", "network_id", "cidr"]
        if parsed_args.long:
            columns += ["Project", "DHCP", "Name Servers", "Allocation Pools", "IP Version", "Gateway"]
            names += ["project_id", "enable_dhcp", "dns_nameservers", "allocation_pools", "ip_version", "gateway_ip"]
        network = find.network(self.client, parsed_args.network)["id"] if parsed_args.network else None
        rows = [fields(subnet) for subnet in self.client.pages(SUBNETS, "subnets", network_id=network)]
        return columns, [tuple(row[name] for name in names) for row in rows]


class SubnetShow(ShowOne):
    """Show a subnet."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("subnet", metavar="SUBNET", help="name or ID")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        return self.dict2columns(fields(find.subnet(self.client, parsed_args.subnet)))


class SubnetDelete(Command):
    """Delete subnets. One of which ports have addresses stays."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("subnets", nargs="+", metavar="SUBNET", help="name or ID; if one is unknown, none goes")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        subnets = {found["id"] for found in [find.subnet(self.client, name) for name in parsed_args.subnets]}
        for identity in sorted(subnets):
            self.client.delete(f"{SUBNETS}/{part(identity)}")


def pool(text: str) -> Json:
    """Parses `start=ADDRESS,end=ADDRESS`, as in OpenStack's client."""
    pairs = dict(pair.partition("=")[::2] for pair in text.split(","))
    if pairs.keys() != {"start", "end"}:
        raise UsageError(f"'{text}' is not a pool such as start=192.0.2.10,end=192.0.2.20.")
    return pairs


def fields(subnet: Json) -> dict[str, Any]:
    pools = [f"{one['start']}-{one['end']}" for one in subnet["allocation_pools"]]
    routes = [f"{one['destination']} via {one['nexthop']}" for one in subnet["host_routes"]]
    return {
        **subnet,
        "allocation_pools": Words(pools),
        "dns_nameservers": Words(subnet["dns_nameservers"]),
        "host_routes": Words(routes),
    }
