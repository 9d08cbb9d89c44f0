"""Options that decide where servers are placed, and the request body that they make."""

import argparse

from minova.cli import find
from minova.cli.client import Client, Json
from minova.cli.commands.server.create.disks import OfVolume
from minova.cli.errors import UsageError
from minova.cli.parser import add_key_values, key_value

NAMING_SERVERS = {"same_host", "different_host"}  # hints


def add_request_options(parser: argparse.ArgumentParser, *, any_image: bool = False) -> None:
    """`any_image`: --image is optional."""
    parser.add_argument("--flavor", required=True, help="its size: name or ID of a flavor")
    sources = parser.add_mutually_exclusive_group(required=not any_image)
    sources.add_argument("--image", help="what it boots from: name or ID of an image")
    sources.add_argument(
        "--image-property",
        dest="image_properties",
        type=key_value,
        action="append",
        metavar="KEY=VALUE",
        help="what it boots from: the only image that has it; may be repeated, and the image has all of them",
    )
    if not any_image:
        for option in ("--volume", "--snapshot"):
            sources.add_argument(option, action=OfVolume, help="refused: there are no volumes")
    parser.add_argument(
        "--availability-zone", metavar="ZONE", help="ZONE, ZONE:HOST or ZONE:HOST:NODE (hosts: administrators)"
    )
    parser.add_argument(
        "--group", "--server-group", help="join this server group: name or ID; the same as --hint group=GROUP"
    )
    parser.add_argument("--host", help="on this host, if its filters allow it (administrators)")
    parser.add_argument("--hypervisor-hostname", metavar="NODE", help="on this node, likewise (administrators)")
    add_key_values(parser, "--hint", "for the scheduler's filters; may be repeated, also with the same key")
    add_key_values(parser, "--property", "metadata; may be repeated")


def request_body(client: Client, parsed_args: argparse.Namespace) -> Json:
    """Returns the request body, with flavor, image, group and servers by their IDs."""
    zone = parsed_args.availability_zone
    place_options = {"host": parsed_args.host, "hypervisor_hostname": parsed_args.hypervisor_hostname}
    places = {key: value for key, value in place_options.items() if value}
    if places and zone and ":" in zone:
        raise UsageError("--host and a host in --availability-zone say the same thing: give one.")
    server: Json = {"metadata": dict(parsed_args.property), **places}
    server["flavorRef"] = find.flavor(client, parsed_args.flavor)["id"]
    if parsed_args.image:
        server["imageRef"] = find.image(client, parsed_args.image)["id"]
    elif parsed_args.image_properties:
        server["imageRef"] = find.image_with(client, dict(parsed_args.image_properties))["id"]
    if zone:
        server["availability_zone"] = zone
    hints = _all_hints(client, parsed_args)
    return {"server": server, "os:scheduler_hints": hints} if hints else {"server": server}


def _all_hints(client: Client, parsed_args: argparse.Namespace) -> Json:
    hints = _hints(parsed_args.hint)
    if parsed_args.group and "group" in hints:
        raise UsageError("--group and --hint group=... say the same thing: give one.")
    group = parsed_args.group or hints.get("group")
    if isinstance(group, str):
        hints["group"] = find.server_group(client, group)["id"]
    for key in NAMING_SERVERS & hints.keys():
        server_names = hints[key] if isinstance(hints[key], list) else [hints[key]]
        hints[key] = [find.server(client, name)["id"] for name in server_names]
    return hints


def _hints(pairs: list[tuple[str, str]]) -> Json:
    """Returns the hints. A key given more than once becomes a list, as `different_host` accepts it."""
    hints: Json = {}
    for key, value in pairs:
        if key not in hints:
            hints[key] = value
        elif isinstance(hints[key], list):
            hints[key].append(value)
        else:
            hints[key] = [hints[key], value]
    return hints
