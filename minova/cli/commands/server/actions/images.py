"""`minova server image create`, `minova server backup create`: images of a server."""

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from minova.cli import find
from minova.cli.base import ShowOne
from minova.cli.client import IMAGE, Json, RequestedAction, part
from minova.cli.commands.image import fields
from minova.cli.commands.server.actions.action import failure_of
from minova.cli.errors import ApiError, CliError
from minova.cli.parser import add_wait, key_value, positive
from minova.cli.wait import POLLS, Progress, ServerGone, TimedOut, failed_action, wait_for_status


class ServerImageCreate(ShowOne):
    """Make an image of a server's root disk. The guest runs on."""

    key = "createImage"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("server", metavar="SERVER", help="name or ID")
        parser.add_argument("--name", metavar="IMAGE", help="name of the image (default: the server's)")
        self.add_options(parser)
        add_wait(parser, "until the image is active", 1800.0)
        return parser

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--property",
            action="append",
            type=key_value,
            default=[],
            metavar="KEY=VALUE",
            help="of the image; repeatable",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        server = find.server(self.client, parsed_args.server)
        arguments = {"name": parsed_args.name or server["name"], **self.arguments(parsed_args)}
        requested = self.client.request_action(server["id"], {self.key: arguments})
        if parsed_args.wait:
            self._wait(server, requested, parsed_args.timeout)
        return self.dict2columns(fields(self.client.get(f"{IMAGE}/images/{part(requested.created)}")))

    def arguments(self, parsed_args: argparse.Namespace) -> Json:
        """Returns the fields of the request besides the name."""
        return {"metadata": dict(parsed_args.property)} if parsed_args.property else {}

    def _wait(self, server: Json, requested: RequestedAction, timeout: float) -> None:
        """Shows the server's states; the image's status decides how it ended."""
        progress, deadline = Progress.on(sys.stderr), time.monotonic() + timeout
        last = server
        try:
            last = wait_for_status(self.client, server, progress, timeout)
        except ServerGone:
            pass  # the image's record says whether it was complete before
        except TimedOut as late:
            raise CliError(f"Waited {timeout:g} s: {late}. The request is still in progress.") from None
        except KeyboardInterrupt:
            print("\nStopped waiting: the request is still in progress.", file=sys.stderr)
            raise
        for pause in POLLS.pauses():
            status = self._status(requested.created)
            if status == "active":
                return
            if status not in {"queued", "saving"} or time.monotonic() >= deadline:
                reason = failure_of(self.client, server["id"], requested.request_id) or "the image was deleted"
                raise CliError(failed_action(last, "made into an image", reason))
            time.sleep(pause)

    def _status(self, image_id: str) -> str | None:
        try:
            return str(self.client.get(f"{IMAGE}/images/{part(image_id)}")["status"])
        except ApiError as error:
            if error.status == 404:
                return None
            raise


class ServerBackupCreate(ServerImageCreate):
    """Back a server up into an image. The newest backups of its type stay, and older ones are removed."""

    key = "createBackup"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--type", default="", help="such as daily or weekly; each is rotated for itself (default: empty)"
        )
        parser.add_argument(
            "--rotate", type=positive, default=1, metavar="N", help="how many backups of the type stay (default: 1)"
        )

    def arguments(self, parsed_args: argparse.Namespace) -> Json:
        return {"backup_type": parsed_args.type, "rotation": parsed_args.rotate}
