"""Options for the networks of a new server, as in OpenStack's client."""

import argparse

from minova.cli import find
from minova.cli.client import Client, Json
from minova.cli.errors import UsageError

_KEYS = {"net-id", "port-id", "v4-fixed-ip", "v6-fixed-ip", "tag"}
NONE, AUTO = "none", "auto"
# The first microversions in which networks may be a word, and in which an interface may have a tag.
WORDS_SINCE, TAGS_SINCE = "2.37", "2.42"


def add_network_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options for networks. Interfaces are in the order of the options."""
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
        "--no-network", dest="nics", action="append_const", const=NONE, help="without any network, as --nic none"
    )
    parser.add_argument(
        "--auto-network",
        dest="nics",
        action="append_const",
        const=AUTO,
        help="on the only network that the project may use, which there must be, as --nic auto",
    )
    parser.add_argument(
        "--nic",
        dest="nics",
        action="append",
        type=nic,
        metavar="net-id=NETWORK,v4-fixed-ip=ADDRESS,port-id=PORT,tag=TAG | none | auto",
        help="a network, with an address where wanted, or a port; may be repeated",
    )


def add_group_option(parser: argparse.ArgumentParser) -> None:
    groups = parser.add_mutually_exclusive_group()
    groups.add_argument(
        "--security-group",
        dest="security_groups",
        action="append",
        metavar="GROUP",
        help="of its new interfaces; name or ID; may be repeated (default: the project's group default)",
    )
    groups.add_argument(
        "--no-security-group",
        dest="security_groups",
        action="store_const",
        const=[],
        help="name none: as in Nova, the API gives new interfaces the group default all the same; ports keep their own",
    )


def nic(text: str) -> dict[str, str] | str:
    if text in {NONE, AUTO}:
        return text
    pairs = dict(pair.partition("=")[::2] for pair in text.split(","))
    both = {"v4-fixed-ip", "v6-fixed-ip"} <= pairs.keys()
    if not pairs.keys() <= _KEYS or both or "" in pairs.values() or ("net-id" in pairs) == ("port-id" in pairs):
        raise UsageError(f"'{text}' is not an interface such as net-id=NAME,v4-fixed-ip=192.0.2.10 or port-id=NAME.")
    return pairs


def networks_of(client: Client, parsed_args: argparse.Namespace) -> list[Json] | str | None:
    """Returns the field of the request; None if no option was given."""
    nic_options = parsed_args.nics or []
    words = [each for each in nic_options if isinstance(each, str)]
    if words and len(nic_options) > 1:
        raise UsageError(f"A server with networks '{words[0]}' has no other --network, --port or --nic.")
    return words[0] if words else [_network_of(client, each) for each in nic_options] or None


def version_of(networks: list[Json] | str | None) -> str | None:
    """Returns the microversion that the field needs; None: any."""
    if isinstance(networks, str):
        return WORDS_SINCE
    return TAGS_SINCE if any("tag" in each for each in networks or ()) else None


def _network_of(client: Client, nic_option: dict[str, str]) -> Json:
    tag = {"tag": nic_option["tag"]} if "tag" in nic_option else {}
    if "port-id" in nic_option:
        return {"port": find.port(client, nic_option["port-id"])["id"], **tag}
    address = nic_option.get("v4-fixed-ip") or nic_option.get("v6-fixed-ip")
    network: Json = {"uuid": find.network(client, nic_option["net-id"])["id"]}
    return network | ({"fixed_ip": address} if address else {}) | tag
