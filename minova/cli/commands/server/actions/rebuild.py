"""`minova server rebuild`."""

import argparse
from typing import Any

from minova.cli import find
from minova.cli.client import COMPUTE, Json, part
from minova.cli.commands.server.actions.action import ServerActionCommand
from minova.cli.commands.server.create.command import user_data
from minova.cli.output.columns import printable
from minova.cli.parser import key_value


class ServerRebuild(ServerActionCommand):
    """Give servers new disks, from an image, and what else is named; addresses, size and place stay. What is on the disks is lost."""

    key = "rebuild"
    status = None
    done = "rebuilt"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--image", help="name or ID of the image (default: the server's own)")
        parser.add_argument("--name", help="a new name")
        parser.add_argument("--description", help="a new description")
        parser.add_argument("--hostname", help="what the guest is called from now on")
        parser.add_argument(
            "--password", help="the administrator's, for a server with a config drive (default: a new one)"
        )
        parser.add_argument(
            "--property",
            type=key_value,
            action="append",
            metavar="KEY=VALUE",
            help="metadata, in place of those of before; may be repeated",
        )
        keys = parser.add_mutually_exclusive_group()
        keys.add_argument("--key-name", metavar="NAME", help="a key pair of yours")
        keys.add_argument("--no-key-name", "--key-unset", action="store_true", help="no key pair any more")
        data = parser.add_mutually_exclusive_group()
        data.add_argument("--user-data", metavar="FILE", help="a script or cloud-config that the guest runs")
        data.add_argument("--no-user-data", action="store_true", help="no user data any more")
        ephemeral = parser.add_mutually_exclusive_group()
        ephemeral.add_argument(
            "--preserve-ephemeral",
            action="store_true",
            default=None,
            help="keep what is on the ephemeral disk: minova's hosts cannot, and refuse it",
        )
        ephemeral.add_argument(
            "--no-preserve-ephemeral",
            dest="preserve_ephemeral",
            action="store_false",
            help="make the ephemeral disk anew, as without the option",
        )
        certificates = parser.add_mutually_exclusive_group()
        certificates.add_argument(
            "--trusted-image-cert",
            dest="trusted_image_certificates",
            action="append",
            metavar="ID",
            help="a certificate that has to have signed the image: clouds of minova cannot tell, and refuse it",
        )
        certificates.add_argument(
            "--no-trusted-image-certs", action="store_true", help="changes nothing: no server has any"
        )
        volumes = parser.add_mutually_exclusive_group()
        for option in ("--reimage-boot-volume", "--no-reimage-boot-volume"):
            volumes.add_argument(
                option, action="store_true", help="changes nothing: no server of minova boots from a volume"
            )
        return parser

    def arguments_for(self, server: Json, parsed_args: argparse.Namespace) -> Any:
        if parsed_args.image:
            image = find.image(self.client, parsed_args.image)["id"]
        else:
            image = self.client.get(f"{COMPUTE}/servers/{part(server['id'])}")["server"]["image"]["id"]
        options = {
            "name": parsed_args.name,
            "description": parsed_args.description,
            "hostname": parsed_args.hostname,
            "adminPass": parsed_args.password,
            "metadata": dict(parsed_args.property) if parsed_args.property else None,
            "key_name": parsed_args.key_name,
            "user_data": user_data(parsed_args.user_data) if parsed_args.user_data else None,
            "preserve_ephemeral": parsed_args.preserve_ephemeral,
            "trusted_image_certificates": parsed_args.trusted_image_certificates,
        }
        removed = {"key_name": parsed_args.no_key_name, "user_data": parsed_args.no_user_data}
        changes = {key: value for key, value in options.items() if value is not None}
        return {"imageRef": image, **changes, **{key: None for key, is_removed in removed.items() if is_removed}}

    def show(self, server: Json, answer: Any) -> None:
        if "adminPass" in answer["server"]:
            print(f"{printable(server['name'])}: admin password {printable(answer['server']['adminPass'])}")
