"""The networks of a new server, in the words of OpenStack's client."""

import argparse

from minova.cli import find
from minova.cli.client import Client, Json
from minova.cli.errors import UsageError

_KEYS = {"net-id", "port-id", "v4-fixed-ip", "v6-fixed-ip"}


def add_network_options(parser: argparse.ArgumentParser) -> None:
    """Interfaces are in the order of the options."""
    parser.add_argument(
        "--network",
        dest="nics",
        action="append",
        type=lambda name: {"net-id": name},
        metavar="NETWORK",
        help="name or ID; may be repeated. Without networks: the only one that the project may use, if there is one",
    )
    parser.add_argument(
        "--port",
        dest="nics",
        action="append",
        type=lambda name: {"port-id": name},
        metavar="PORT",
        help="name or ID of a port that is free; may be repeated",
    )
    parser.add_argument(
        "--nic",
        dest="nics",
        action="append",
        type=nic,
        metavar="net-id=NETWORK,v4-fixed-ip=ADDRESS,port-id=PORT",
        help="a network, with an address where wanted, or a port; may be repeated",
    )


def add_group_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--security-group",
        dest="security_groups",
        action="append",
        metavar="GROUP",
        help="of its new interfaces; name or ID; may be repeated (default: the project's group default)",
    )


def nic(text: str) -> dict[str, str]:
    pairs = dict(pair.partition("=")[::2] for pair in text.split(","))
    if not pairs.keys() <= _KEYS or ("net-id" in pairs) == ("port-id" in pairs):
        raise UsageError(f"'{text}' is not an interface such as net-id=NAME,v4-fixed-ip=192.0.2.10 or port-id=NAME.")
    return pairs


def networks_of(client: Client, parsed_args: argparse.Namespace) -> list[Json]:
    return [_found(client, wanted) for wanted in parsed_args.nics or []]


def _found(client: Client, wanted: dict[str, str]) -> Json:
    if "port-id" in wanted:
        return {"port": find.port(client, wanted["port-id"])["id"]}
    address = wanted.get("v4-fixed-ip") or wanted.get("v6-fixed-ip")
    network: Json = {"uuid": find.network(client, wanted["net-id"])["id"]}
    return network | ({"fixed_ip": address} if address else {})
