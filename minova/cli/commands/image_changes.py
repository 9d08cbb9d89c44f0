"""`minova image set|unset|add project|remove project|member list`: changes of an image, and the projects that share
it.
"""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from minova.cli import find
from minova.cli.base import Command, Lister, ShowOne
from minova.cli.client import IMAGE, Client, Json, part
from minova.cli.commands.image import NOT_PROPERTIES, add_flags, flags_of
from minova.cli.errors import CliError, UsageError
from minova.cli.parser import add_domain, add_key_values, add_owner, natural

MEMBERSHIPS = {"accept": "accepted", "reject": "rejected", "pending": "pending"}
# Properties that have options of their own.
PROPERTIES = {
    "architecture": ("--architecture",),
    "instance_uuid": ("--instance-id", "--instance-uuid"),
    "kernel_id": ("--kernel-id",),
    "os_distro": ("--os-distro",),
    "os_version": ("--os-version",),
    "ramdisk_id": ("--ramdisk-id",),
}
COLUMNS = ("Image ID", "Member ID", "Status")


class ImageSet(Command):
    """Change an image: its name, properties, tags, who sees it; or accept or reject one that is shared with the project."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("image", metavar="IMAGE", help="name or ID")
        parser.add_argument("--name", help="its new name")
        parser.add_argument("--min-disk", type=natural, metavar="GB", help="smallest root disk it boots on")
        parser.add_argument("--min-ram", type=natural, metavar="MB", help="least memory it boots with")
        parser.add_argument("--disk-format", choices=["qcow2", "raw"], help="what its bytes will be")
        parser.add_argument("--container-format", choices=["bare"], help="bare")
        add_flags(parser)
        add_key_values(parser, "--property", "may be repeated")
        parser.add_argument("--tag", action="append", default=[], help="add a tag; may be repeated")
        state = parser.add_mutually_exclusive_group()
        state.add_argument("--deactivate", action="store_true", help="only administrators may download it")
        state.add_argument("--activate", action="store_true", help="it may be downloaded again")
        membership = parser.add_mutually_exclusive_group()
        for option, status in MEMBERSHIPS.items():
            membership.add_argument(f"--{option}", action="store_true", help=f"the membership becomes {status}")
        add_owner(parser, "project", "whose the image becomes, or whose membership it is")
        for key, options in PROPERTIES.items():
            parser.add_argument(*options, dest=key, metavar="VALUE", help=f"the property {key}")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        membership = next((status for option, status in MEMBERSHIPS.items() if getattr(parsed_args, option)), None)
        project = find.owner(self.client, parsed_args)
        changes = _changes(parsed_args, project if membership is None else None)
        others = (membership, parsed_args.deactivate, parsed_args.activate, parsed_args.tag)
        if not changes and not any(others):
            raise UsageError("Say what is to be set, such as --name or --property.")
        image = _image(self.client, parsed_args.image, with_pending=membership is not None)
        path = f"{IMAGE}/images/{part(image['id'])}"
        if membership is not None:
            member = project or _own_membership(self.client, path)
            self.client.put(f"{path}/members/{part(member)}", {"status": membership})
        if parsed_args.tag:
            tags = [*dict.fromkeys([*image["tags"], *parsed_args.tag])]
            changes.append({"op": "replace", "path": "/tags", "value": tags})
        if changes:
            self.client.patch_image(path, changes)
        for verb, action in (("deactivate", "deactivate"), ("activate", "reactivate")):
            if getattr(parsed_args, verb):
                self.client.post(f"{path}/actions/{action}", {})


class ImageUnset(Command):
    """Remove properties and tags of an image."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("image", metavar="IMAGE", help="name or ID")
        parser.add_argument("--property", action="append", default=[], metavar="KEY", help="may be repeated")
        parser.add_argument("--tag", action="append", default=[], help="may be repeated")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        if not parsed_args.property and not parsed_args.tag:
            raise UsageError("Say what is to be unset: --property or --tag.")
        image = find.image(self.client, parsed_args.image)
        unknown = [key for key in parsed_args.property if key not in image or key in NOT_PROPERTIES]
        unknown += [tag for tag in parsed_args.tag if tag not in image["tags"]]
        if unknown:
            raise CliError(f"Image {image['id']} has no {', '.join(unknown)}; nothing was unset.")
        changes: list[Json] = [{"op": "remove", "path": _pointer(key)} for key in dict.fromkeys(parsed_args.property)]
        if parsed_args.tag:
            other_tags = [tag for tag in image["tags"] if tag not in parsed_args.tag]
            changes.append({"op": "replace", "path": "/tags", "value": other_tags})
        self.client.patch_image(f"{IMAGE}/images/{part(image['id'])}", changes)


class ImageAddProject(ShowOne):
    """Share an image with a project, which may accept or reject it."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _with_project(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        image = find.image(self.client, parsed_args.image)
        member = self.client.post(
            f"{IMAGE}/images/{part(image['id'])}/members", {"member": _project(self.client, parsed_args)}
        )
        return self.dict2columns({key: value for key, value in member.items() if key != "schema"})


class ImageRemoveProject(Command):
    """Share an image with a project no longer."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _with_project(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        image = find.image(self.client, parsed_args.image)
        self.client.delete(f"{IMAGE}/images/{part(image['id'])}/members/{part(_project(self.client, parsed_args))}")


class ImageMemberGet(ShowOne):
    """Show whether a project has accepted an image."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("image", metavar="IMAGE", help="name or ID")
        parser.add_argument("member", metavar="PROJECT", help="name or ID with Keystone, else its name")
        add_domain(parser, "project")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        image = _image(self.client, parsed_args.image, with_pending=True)
        project = self.client.owner("project", parsed_args.member, parsed_args.project_domain)
        member = self.client.get(f"{IMAGE}/images/{part(image['id'])}/members/{part(project)}")
        return self.dict2columns({key: value for key, value in member.items() if key != "schema"})


class ImageMemberList(Lister):
    """List the projects with which an image is shared."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("image", metavar="IMAGE", help="name or ID")
        add_domain(parser, "project")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        image = _image(self.client, parsed_args.image, with_pending=True)
        members = self.client.get(f"{IMAGE}/images/{part(image['id'])}/members")["members"]
        return COLUMNS, [(member["image_id"], member["member_id"], member["status"]) for member in members]


def _with_project(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("image", metavar="IMAGE", help="name or ID")
    parser.add_argument("project", metavar="PROJECT", help="name or ID with Keystone, else its name")
    add_domain(parser, "project")
    return parser


def _project(client: Client, parsed_args: argparse.Namespace) -> str:
    return client.owner("project", parsed_args.project, parsed_args.project_domain)


def _changes(parsed_args: argparse.Namespace, owner: str | None) -> list[Json]:
    """Returns the operations of a PATCH, except those of tags."""
    plain = ("name", "min_disk", "min_ram", "disk_format", "container_format")
    values = {key: value for key in plain if (value := getattr(parsed_args, key)) is not None}
    values |= flags_of(parsed_args)
    if owner is not None:
        values["owner"] = owner
    values |= {key: value for key in PROPERTIES if (value := getattr(parsed_args, key)) is not None}
    values |= dict(parsed_args.property)
    return [{"op": "add", "path": _pointer(key), "value": value} for key, value in values.items()]


def _pointer(key: str) -> str:
    """Returns a pointer of JSON Patch."""
    return "/" + key.replace("~", "~0").replace("/", "~1")


def _image(client: Client, name_or_id: str, *, with_pending: bool) -> Json:
    """Returns the image. A name is searched among the listed images first: other projects may share any image under any
    name.
    """
    try:
        return find.image(client, name_or_id)
    except CliError:
        pages = client.pages(f"{IMAGE}/images", "images", name=name_or_id, member_status="all") if with_pending else ()
        images = list(pages)
        if len(images) != 1:
            raise
        return images[0]


def _own_membership(client: Client, path: str) -> str:
    """Returns the caller's own membership: a member sees only itself."""
    members = client.get(f"{path}/members")["members"]
    if len(members) != 1:
        raise CliError("Say with --project whose membership it is.")
    return str(members[0]["member_id"])
