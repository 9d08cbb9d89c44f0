"""The filters of `minova server list`, with the options of OpenStack's client, and the query that they make for the
API.
"""

import argparse
import re
from collections.abc import Callable, Iterator

from minova.cli import find
from minova.cli.client import Client, Json
from minova.cli.errors import CliError
from minova.cli.output.servers import DOMAIN, POWER_STATES
from minova.cli.parser import add_owner, add_paging

# {option: its field in the API}
_FIELDS = {
    "status": "status",
    "name": "name",
    "ip": "ip",
    "ip6": "ip6",
    "host": "host",
    "reservation_id": "reservation_id",
    "availability_zone": "availability_zone",
    "key_name": "key_name",
    "config_drive": "config_drive",
    "progress": "progress",
    "vm_state": "vm_state",
    "task_state": "task_state",
    "changes_since": "changes-since",
    "changes_before": "changes-before",
    "locked": "locked",
    "tags": "tags",
    "not_tags": "not-tags",
}
_NO_STATE = "pending"
_POWER = {_NO_STATE: 0, **{word.lower(): number for number, word in POWER_STATES.items() if number}}


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Adds the filter options. If several are given, a server must match all of them."""
    parser.add_argument("--all-projects", action="store_true", help="of every project (administrators)")
    add_owner(parser, "project", "of this project (administrators)")
    add_owner(parser, "user", "of this user")
    parser.add_argument("--status", type=str.upper, help="only with this status: ACTIVE, BUILD, ERROR ...")
    parser.add_argument("--vm-state", metavar="STATE", help="only in this state: active, building, error, stopped ...")
    parser.add_argument("--task-state", metavar="STATE", help="only with this in progress: spawning, powering-off ...")
    parser.add_argument("--power-state", choices=sorted(_POWER), help="only with guests in this state")
    parser.add_argument("--progress", type=percent, metavar="PERCENT", help="only with this progress, 0 to 100")
    parser.add_argument("--name", metavar="REGEX", help="only with a name that matches")
    parser.add_argument("--ip", metavar="REGEX", help="only with an IPv4 address that matches")
    parser.add_argument("--ip6", metavar="REGEX", help="only with an IPv6 address that matches")
    parser.add_argument(
        "--instance-name", metavar="REGEX", help="only with a name on their hosts that matches (administrators)"
    )
    parser.add_argument("--flavor", help="only of this flavor: name or ID")
    parser.add_argument("--image", help="only from this image: name or ID")
    parser.add_argument("--key-name", metavar="NAME", help="only with this key pair")
    parser.add_argument("--reservation-id", metavar="ID", help="only those that one request has made")
    parser.add_argument("--host", help="only on this host")
    parser.add_argument("--availability-zone", metavar="ZONE", help="only in this zone")
    parser.add_argument("--deleted", action="store_true", help="those that are deleted instead (administrators)")
    drives = parser.add_mutually_exclusive_group()
    drives.add_argument("--config-drive", action="store_true", default=None, help="only with a config drive")
    drives.add_argument("--no-config-drive", dest="config_drive", action="store_false", help="only without one")
    locks = parser.add_mutually_exclusive_group()
    locks.add_argument("--locked", action="store_true", default=None, help="only locked ones")
    locks.add_argument("--unlocked", dest="locked", action="store_false", help="only ones that are not locked")
    parser.add_argument(
        "--tags",
        action="append",
        default=[],
        metavar="TAG",
        help="only with this tag; may be repeated: with all of them",
    )
    parser.add_argument(
        "--not-tags",
        action="append",
        default=[],
        metavar="TAG",
        help="only without this tag; may be repeated: not with all of them",
    )
    parser.add_argument(
        "--changes-since", metavar="TIME", help="only what has changed then (ISO 8601) or later, deleted ones too"
    )
    parser.add_argument("--changes-before", metavar="TIME", help="only what has changed then or earlier")
    add_paging(parser, "those after this one", "SERVER")


def percent(text: str) -> int:
    if not (text.isdecimal() and int(text) <= 100):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0 to 100")
    return int(text)


def query_of(client: Client, parsed_args: argparse.Namespace) -> Json:
    """Returns the query for the API. Raises CliError if a flavor, image, project, user or server does not exist."""
    field_values = ((field, getattr(parsed_args, option)) for option, field in _FIELDS.items())
    query = {field: value for field, value in field_values if value not in (None, [])}
    for field in ("tags", "not-tags"):
        if field in query:
            query[field] = ",".join(query[field])
    if parsed_args.power_state:
        query["power_state"] = _POWER[parsed_args.power_state]
    if parsed_args.deleted:
        query["deleted"] = True
    if parsed_args.all_projects or parsed_args.project:
        query["all_tenants"] = 1
    return query | _ids_of_named(client, parsed_args)


def _ids_of_named(client: Client, parsed_args: argparse.Namespace) -> Json:
    """Returns the filters that refer to resources by name, with their IDs."""
    every = bool(parsed_args.all_projects or parsed_args.project)
    finders: dict[str, Callable[[str], str]] = {
        "flavor": lambda name: str(find.flavor(client, name)["id"]),
        "image": lambda name: str(find.image(client, name)["id"]),
        "project": lambda name: client.owner("project", name, parsed_args.project_domain),
        "user": lambda name: client.owner("user", name, parsed_args.user_domain),
        "marker": lambda name: str(find.server(client, name, every=every)["id"]),
    }
    fields = {"project": "project_id", "user": "user_id"}
    return {
        fields.get(option, option): finder(getattr(parsed_args, option))
        for option, finder in finders.items()
        if getattr(parsed_args, option)
    }


def named_on_hosts(servers: Iterator[Json], pattern: str) -> Iterator[Json]:
    """Yields servers whose name on the host matches: the API has no filter for it. Raises CliError if the user may not
    see these names, and for a bad pattern.
    """
    try:
        matches = re.compile(pattern).search
    except re.error as error:
        raise CliError(f"--instance-name {pattern}: {error}.") from None
    for server in servers:
        if DOMAIN not in server:
            raise CliError("Only administrators see the names that servers have on their hosts.")
        if matches(server[DOMAIN] or ""):
            yield server
