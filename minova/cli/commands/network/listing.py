"""Options that the listings of the Network API share."""

import argparse
from typing import Any

from minova.cli import find
from minova.cli.base import Lister
from minova.cli.parser import add_owner, add_paging

# The options of tags, and the filters of the API.
_TAG_FILTERS = {
    "tags": ("tags", "with all of these tags"),
    "any_tags": ("tags-any", "with one of these tags"),
    "not_tags": ("not-tags", "without one of these tags"),
    "not_any_tags": ("not-tags-any", "with none of these tags"),
}


def add_filters(parser: argparse.ArgumentParser, *, has_name: bool = True, has_tags: bool = True) -> None:
    """Adds the options that `filters` reads."""
    if has_name:
        parser.add_argument("--name", metavar="NAME", help="only with this name")
    add_owner(parser, "project", "only its own")
    add_paging(parser, "only those after this one", "ID")
    if has_tags:
        for name, (_, text) in _TAG_FILTERS.items():
            parser.add_argument(f"--{name.replace('_', '-')}", metavar="TAG[,TAG...]", help=f"only {text}")


def filters(command: Lister, parsed_args: argparse.Namespace) -> dict[str, Any]:
    """Returns the arguments of `Client.pages` for the options of `add_filters`."""
    tags = {key: getattr(parsed_args, name, None) for name, (key, _) in _TAG_FILTERS.items()}
    return {
        "limit": parsed_args.limit,
        "marker": parsed_args.marker,
        "name": getattr(parsed_args, "name", None),
        "project_id": find.owner(command.client, parsed_args),
        **tags,
    }


def add_switch(parser: argparse.ArgumentParser, field: str, on: str, off: str, *help_texts: str) -> None:
    """Adds a pair of options: the field is True, False or None. The texts are those of the two."""
    switch = parser.add_mutually_exclusive_group()
    for option, value, text in zip((on, off), (True, False), (*help_texts, None, None), strict=False):
        switch.add_argument(f"--{option}", dest=field, action="store_const", const=value, help=text)
