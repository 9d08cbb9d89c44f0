"""`minova server set|unset|rename|lock|unlock`: changes that take effect at once, without the server's host."""

import argparse
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar

from minova.cli import find
from minova.cli.base import Command
from minova.cli.client import COMPUTE, Client, Json, part
from minova.cli.commands.server.actions.action import find_all
from minova.cli.errors import CliError, UsageError
from minova.cli.output.columns import printable
from minova.cli.parser import key_value


def path_of(server: Json) -> str:
    return f"{COMPUTE}/servers/{part(server['id'])}"


class ServerSet(Command):
    """Change what a server is called, its metadata and tags, the password inside, or its state (administrators)."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("server", metavar="SERVER", help="name or ID")
        parser.add_argument("--name", help="its new name")
        parser.add_argument("--description", help="what it is for")
        parser.add_argument("--hostname", help="its name inside, which the guest reads when it boots")
        passwords = parser.add_mutually_exclusive_group()
        passwords.add_argument("--password", help="of the administrator inside, by the agent in the guest")
        passwords.add_argument("--root-password", action="store_true", help="the same, asked for on the terminal")
        passwords.add_argument(
            "--no-password",
            action="store_true",
            help="forget the password that the guest has left, which stays as it is",
        )
        _add_words(parser, "--property", key_value, "KEY=VALUE", "metadata; may be repeated, and other keys stay")
        _add_words(parser, "--tag", str, "TAG", "a word of its own; may be repeated, and others stay")
        parser.add_argument(
            "--pinned-availability-zone", metavar="ZONE", help="keep it in this zone, in which it is now, when it moves"
        )
        parser.add_argument(
            "--state", choices=("active", "error"), help="what it is from now on; an action in progress ends"
        )
        parser.add_argument(
            "--auto-approve", action="store_true", help="set the state without the question that a terminal is asked"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        changes = {key: value for key, value in vars(parsed_args).items() if key in _SETTERS and value not in _NOTHING}
        if not (changes or parsed_args.root_password):
            raise UsageError("Say what is to be set: --name, --description, --property, --tag or another option.")
        if parsed_args.root_password:
            changes["password"] = _typed_password()
        server = find.server(self.client, parsed_args.server)
        if parsed_args.state and not (parsed_args.auto_approve or _approved(server, parsed_args.state)):
            raise CliError("Nothing was changed.")
        path = path_of(server)
        # In the order of the table: after a failure the later changes are not made.
        for key, setter in _SETTERS.items():
            if key in changes:
                setter(self.client, path, changes[key])


def _approved(server: Json, state: str) -> bool:
    """Asks the user for confirmation. Without a terminal the change counts as approved."""
    if not sys.stdin.isatty():
        return True
    print(
        f"Server {printable(server['name'])} is {server['status']}. Its state is a record only: the guest is left as it is, and an action "
        f"in progress ends. Set it to {state}? [y/n] ",
        end="",
        file=sys.stderr,
        flush=True,
    )
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _typed_password() -> str:
    from getpass import getpass  # noqa: PLC0415 - only with a terminal

    password = getpass("New password: ")
    if getpass("The same again: ") != password:
        raise CliError("The two passwords differ; nothing was changed.")
    return password


class ServerUnset(Command):
    """Remove metadata, tags, the description or the pinned zone of a server."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("server", metavar="SERVER", help="name or ID")
        properties = parser.add_mutually_exclusive_group()
        _add_words(properties, "--property", str, "KEY", "metadata to remove; may be repeated")
        properties.add_argument("--all-properties", action="store_true", help="remove all metadata")
        tags = parser.add_mutually_exclusive_group()
        _add_words(tags, "--tag", str, "TAG", "a tag to remove; may be repeated")
        tags.add_argument("--all-tags", action="store_true", help="remove all tags")
        parser.add_argument("--description", action="store_true", help="remove the description")
        parser.add_argument("--pinned-availability-zone", action="store_true", help="let it move to any zone")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        chosen = {key for key, value in vars(parsed_args).items() if value}
        if not chosen & _UNSET:
            raise UsageError("Say what is to be unset: --property, --tag, --description or another option.")
        server = find.server(self.client, parsed_args.server)
        path = path_of(server)
        _require_known(server, "property", parsed_args.property, server["metadata"])
        _require_known(server, "tag", parsed_args.tag, server.get("tags") or ())
        metadata = server["metadata"] if parsed_args.all_properties else parsed_args.property
        for key in sorted({*metadata}):
            self.client.delete(f"{path}/metadata/{part(key)}")
        if parsed_args.all_tags:
            self.client.at("2.26").delete(f"{path}/tags")
        for tag in sorted({*parsed_args.tag}):
            self.client.at("2.26").delete(f"{path}/tags/{part(tag)}")
        if parsed_args.description:
            self.client.put(path, {"server": {"description": None}})
        if parsed_args.pinned_availability_zone:
            self.client.at("2.104").put(path, {"server": {"pinned_availability_zone": None}})


_UNSET = {"property", "all_properties", "tag", "all_tags", "description", "pinned_availability_zone"}
Setter = Callable[[Client, str, Any], object]


def _update(field: str) -> Setter:
    return lambda client, path, value: client.put(path, {"server": {field: value}})


def _act(key: str, field: str) -> Setter:
    return lambda client, path, value: client.post(f"{path}/action", {key: {field: value}})


def _add_tags(client: Client, path: str, tags: list[str]) -> None:
    for tag in dict.fromkeys(tags):
        client.at("2.26").put(f"{path}/tags/{part(tag)}", None)


_SETTERS: Mapping[str, Setter] = {
    "state": _act("os-resetState", "state"),
    "name": _update("name"),
    "description": _update("description"),
    "hostname": _update("hostname"),
    "pinned_availability_zone": lambda client, path, zone: client.at("2.104").put(
        path, {"server": {"pinned_availability_zone": zone}}
    ),
    "property": lambda client, path, pairs: client.post(f"{path}/metadata", {"metadata": dict(pairs)}),
    "tag": _add_tags,
    "password": _act("changePassword", "adminPass"),
    "no_password": lambda client, path, _: client.delete(f"{path}/os-server-password"),
}
# Values of options that were not given. An empty description counts as given.
_NOTHING: tuple[Any, ...] = (None, False, [])


def _add_words(options: Any, name: str, kind: Callable[[str], Any], metavar: str, text: str) -> None:
    options.add_argument(name, type=kind, action="append", default=[], metavar=metavar, help=text)


def _require_known(server: Json, what: str, names: Collection[str], known: Collection[str]) -> None:
    unknown = sorted({*names} - {*known})
    if unknown:
        raise CliError(f"Server {server['name']} has no {what} {', '.join(unknown)}; nothing was unset.")


class ServerRename(Command):
    """Give a server another name."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("server", metavar="SERVER", help="name or ID")
        parser.add_argument("name", metavar="NAME", help="its new name")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        server = find.server(self.client, parsed_args.server)
        self.client.put(path_of(server), {"server": {"name": parsed_args.name}})


class ServerLock(Command):
    """Lock servers: until they are unlocked, only administrators change or delete them."""

    key: ClassVar[str] = "lock"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "servers", nargs="+", metavar="SERVER", help="name or ID; if one is unknown, none is changed"
        )
        self.add_options(parser)
        return parser

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--reason", help="why: others see it")

    def arguments(self, parsed_args: argparse.Namespace) -> Json | None:
        """Returns the value of the action's key in the request."""
        return {"locked_reason": parsed_args.reason} if parsed_args.reason else None

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        for server in find_all(self.client, parsed_args.servers, "Nothing was changed."):
            self.client.post(f"{path_of(server)}/action", {self.key: self.arguments(parsed_args)})


class ServerUnlock(ServerLock):
    """Unlock servers."""

    key = "unlock"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Nothing to add."""

    def arguments(self, parsed_args: argparse.Namespace) -> None:
        """Nothing to add."""
