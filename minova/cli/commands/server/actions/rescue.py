"""`minova server rescue|unrescue`."""

import argparse
from typing import Any

from minova.cli import find
from minova.cli.client import Json
from minova.cli.commands.server.actions.action import ServerAction
from minova.cli.output.columns import printable


class ServerRescue(ServerAction):
    """Rescue servers: their guests boot from a fresh disk, and their root disk is the second one."""

    key = "rescue"
    status = "RESCUE"
    done = "rescued"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--image", help="name or ID of the image to boot from (default: the server's own)")
        parser.add_argument("--password", help="for guests that take one (default: one is made up and shown)")
        return parser

    def arguments(self, parsed_args: argparse.Namespace) -> Any:
        image = {"rescue_image_ref": find.image(self.client, parsed_args.image)["id"]} if parsed_args.image else {}
        password = {"adminPass": parsed_args.password} if parsed_args.password else {}
        return image | password

    def show(self, server: Json, answer: Any) -> None:
        if "adminPass" in answer:
            print(f"{printable(server['name'])}: admin password {printable(answer['adminPass'])}")


class ServerUnrescue(ServerAction):
    """Let servers that are rescued boot from their root disk again."""

    key = "unrescue"
    status = "ACTIVE"
    done = "unrescued"
