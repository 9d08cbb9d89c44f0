"""Tags of resources of the Network API: the options of `create`, `set` and `unset`."""

import argparse
from collections.abc import Sequence

from minova.cli.base import Command
from minova.cli.client import Client, Json, part
from minova.cli.errors import CliError


def add_tags(parser: argparse.ArgumentParser) -> None:
    """Adds the options that `add_new` and `change` read."""
    parser.add_argument("--tag", action="append", metavar="TAG", help="may be repeated")
    parser.add_argument("--no-tag", action="store_true", help="remove its tags first")


def add_new(client: Client, path: str, created: Json, parsed_args: argparse.Namespace) -> Json:
    """Returns the new resource with the tags of the options. If the API refuses the tags, the resource is deleted.

    `path`: of the collection.
    """
    if not parsed_args.tag:
        return created
    try:
        return {**created, "tags": _put(client, path, created, parsed_args.tag)}
    except CliError:
        client.delete(f"{path}/{part(created['id'])}")
        raise


def is_given(parsed_args: argparse.Namespace) -> bool:
    """Whether an option of `add_tags` is given."""
    return bool(parsed_args.tag or parsed_args.no_tag)


def change(client: Client, path: str, resource: Json, parsed_args: argparse.Namespace) -> None:
    """Does what the options of `add_tags` say."""
    if is_given(parsed_args):
        former_tags = [] if parsed_args.no_tag else resource["tags"]
        _put(client, path, resource, [*former_tags, *(parsed_args.tag or ())])


def add_removal(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Adds the options that `remove` reads."""
    tags = parser.add_mutually_exclusive_group(required=required)
    tags.add_argument("--tag", action="append", metavar="TAG", help="to remove; may be repeated")
    tags.add_argument("--all-tag", action="store_true", help="remove all tags")


def remove(client: Client, path: str, resource: Json, parsed_args: argparse.Namespace) -> bool:
    """Does what the options of `add_removal` say. Returns False if none is given. Raises CliError if the resource lacks a tag."""
    if not (parsed_args.tag or parsed_args.all_tag):
        return False
    absent = [tag for tag in parsed_args.tag or () if tag not in resource["tags"]]
    if absent:
        raise CliError(f"There is no tag {', '.join(absent)}.")
    other_tags = [] if parsed_args.all_tag else [tag for tag in resource["tags"] if tag not in parsed_args.tag]
    _put(client, path, resource, other_tags)
    return True


def _put(client: Client, path: str, resource: Json, tags: Sequence[str]) -> list[str]:
    answer = client.put(f"{path}/{part(resource['id'])}/tags", {"tags": [*dict.fromkeys(tags)]})
    answered: list[str] = answer["tags"]
    return answered


class TagUnset(Command):
    """Remove tags. The subclasses name the resource: `noun` in the help, `path` of the collection."""

    noun = ""
    path = ""

    def named(self, name: str) -> Json:
        """Returns the resource with this name or ID."""
        raise NotImplementedError

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("resource", metavar=self.noun, help="name or ID")
        add_removal(parser, required=True)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        remove(self.client, self.path, self.named(parsed_args.resource), parsed_args)
