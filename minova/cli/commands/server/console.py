"""`minova server console log`."""

import argparse
import time

from minova.cli import find
from minova.cli.base import Command
from minova.cli.client import COMPUTE, part
from minova.cli.errors import ApiError
from minova.cli.parser import positive

FOLLOW_INTERVAL = 1.0  # seconds
OVERLAP = 64  # characters: a shorter overlap between two logs counts as coincidence


class ServerConsoleLog(Command):
    """Print what a server has written to its serial console."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("server", metavar="SERVER", help="name or ID")
        parser.add_argument("--lines", type=positive, metavar="N", help="only the last N lines")
        parser.add_argument(
            "--raw",
            action="store_true",
            help="also on a terminal print control characters as they are: the guest can then change what the terminal shows and does",
        )
        parser.add_argument("--follow", action="store_true", help="go on printing what comes, until Ctrl-C")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self._harmless = self.app.stdout.isatty() and not parsed_args.raw
        uuid = find.server(self.client, parsed_args.server)["id"]
        if parsed_args.follow:
            self._follow(uuid, parsed_args.lines)
            return
        log = self._log(uuid, parsed_args.lines)
        self._print(log)
        if log and not log.endswith("\n"):
            self.app.stdout.write("\n")

    def _follow(self, uuid: str, lines: int | None) -> None:
        """Prints the log until the server is gone, or until Ctrl-C. A server that has no host yet (409) has written
        nothing.
        """
        log: str | None = None
        while True:
            try:
                now = self._log(uuid, None)
                self._print(what_is_new(log, now) if log is not None else last_lines(now, lines))
                log = now
            except ApiError as error:
                if error.status == 404 and log is not None:
                    return
                if error.status != 409:
                    raise
            time.sleep(FOLLOW_INTERVAL)

    def _log(self, uuid: str, lines: int | None) -> str:
        options = {} if lines is None else {"length": lines}
        answer = self.client.post(
            f"{COMPUTE}/servers/{part(uuid)}/action",
            {"os-getConsoleOutput": options},
            repeat=True,
        )
        return str(answer.get("output") or "")

    def _print(self, text: str) -> None:
        # A guest can write anything: its control characters must not act on the terminal.
        self.app.stdout.write(harmless(text) if self._harmless else text)
        self.app.stdout.flush()


def harmless(text: str) -> str:
    """Returns the text without control characters, except line ends and tabs."""
    return "".join(letter for letter in text if letter.isprintable() or letter in "\n\t")


def last_lines(text: str, lines: int | None) -> str:
    """Returns the last `lines` lines of a text; all lines if it is None."""
    return text if lines is None else "".join(text.splitlines(keepends=True)[-lines:])


def what_is_new(before: str, now: str) -> str:
    """Returns the part of `now` after the end of `before`.

    The API returns only the end of a log, so both may be cut at the front: the longest overlap counts. Without an
    overlap, all of `now` is new.
    """
    if now.startswith(before):
        return now[len(before) :]
    start = before.find(now[:OVERLAP])
    while start >= 0:
        if now.startswith(before[start:]):
            return now[len(before) - start :]
        start = before.find(now[:OVERLAP], start + 1)
    return now
