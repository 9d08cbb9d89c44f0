"""`minova server rescue|unrescue`."""

import argparse
import sys
from typing import Any

from minova.cli import find
from minova.cli.commands.server.actions.action import ServerActionCommand

HINT = (
    "Without --image a server is rescued with the cloud's rescue image, or else with its own image. A disk of its own image has the "
    "same UUIDs as the disk to rescue: the server gets that one about two minutes later, when it has booted. It has both disks from the "
    "start, and may boot from the wrong one, if its image has hw_disk_bus sata or ide, or hw_rescue_device: rescue it with an image of "
    "another system then: --image."
)


class ServerRescue(ServerActionCommand):
    """Rescue servers: their guests boot from a fresh disk, and their root disk is the second one."""

    key = "rescue"
    status = "RESCUE"
    done = "rescued"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--image", help="name or ID of the image to boot from (default: the cloud's, or the server's own)"
        )
        return parser

    def arguments(self, parsed_args: argparse.Namespace) -> Any:
        return {"rescue_image_ref": find.image(self.client, parsed_args.image)["id"]} if parsed_args.image else {}

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        if not parsed_args.image:
            print(HINT, file=sys.stderr)
        return super().take_action(parsed_args)


class ServerUnrescue(ServerActionCommand):
    """Let servers that are rescued boot from their root disk again."""

    key = "unrescue"
    status = "ACTIVE"
    done = "unrescued"
