"""`minova server console url show` and `minova server console connect`."""

import argparse
import os
import select
import ssl
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import websocket

from minova.cli import find
from minova.cli.base import Command, ShowOne
from minova.cli.client import COMPUTE, Json, part
from minova.cli.errors import CliError

# The actions of OpenStack's API, by the type of the console.
ACTIONS = {
    "novnc": "os-getVNCConsole",
    "xvpvnc": "os-getVNCConsole",
    "spice-html5": "os-getSPICEConsole",
    "rdp-html5": "os-getRDPConsole",
    "serial": "os-getSerialConsole",
}
CONNECT_WITHIN = 10.0  # seconds
ESCAPE = b"\x1d"  # Ctrl-]
CHUNK = 4096


def console_of(command: Command, server: str, console_type: str) -> Json:
    """Returns the `type` and `url` of a console."""
    uuid = find.server(command.client, server)["id"]
    answer = command.client.post(
        f"{COMPUTE}/servers/{part(uuid)}/action", {ACTIONS[console_type]: {"type": console_type}}
    )
    console: Json = answer["console"]
    return console


class ServerConsoleUrlShow(ShowOne):
    """Show the address of a server's console. It opens the console once, within [consoleauth] token_ttl."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("server", metavar="SERVER", help="name or ID")
        kinds = parser.add_mutually_exclusive_group()
        for option, console_type, text in (
            ("--novnc", "novnc", "the screen, in a browser (default)"),
            ("--serial", "serial", "the serial console, for minova server console connect and other terminals"),
            ("--xvpvnc", "xvpvnc", "not served by minova"),
            ("--spice", "spice-html5", "not served by minova"),
            ("--spice-direct", "spice-direct", "not served by minova"),
            ("--rdp", "rdp-html5", "not served by minova"),
            ("--mks", "webmks", "not served by minova"),
        ):
            kinds.add_argument(
                option, dest="console_type", action="store_const", const=console_type, default="novnc", help=text
            )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        console = console_of(self, parsed_args.server, parsed_args.console_type)
        return ("type", "url"), (console["type"], console["url"])


class ServerConsoleConnect(Command):
    """Use a server's serial console in this terminal. Ctrl-] ends the connection."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("server", metavar="SERVER", help="name or ID")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        url = console_of(self, parsed_args.server, "serial")["url"]
        console = connect(url, self.client.cacert)
        try:
            with raw_terminal(sys.stdin.fileno()):
                # From now on every key goes to the guest.
                if sys.stdin.isatty():
                    print("Connected. Ctrl-] ends the connection.", file=sys.stderr, end="\r\n", flush=True)
                relay(console, sys.stdin.fileno(), sys.stdout.fileno())
        finally:
            console.close()
        print("\nThe connection has ended.", file=sys.stderr)


def connect(url: str, cacert: str | None) -> Any:
    """Returns an open WebSocket. Raises CliError if the proxy cannot be reached, or refuses."""
    try:
        return websocket.create_connection(
            url,
            timeout=CONNECT_WITHIN,
            sslopt={"ca_certs": cacert, "cert_reqs": ssl.CERT_REQUIRED},
            enable_multithread=False,
        )
    except (OSError, websocket.WebSocketException) as error:
        place = urlsplit(url).netloc
        raise CliError(
            f"The console at {place} cannot be opened: {error}. Is minova-consoleproxy running, and can you reach it?"
        ) from None


def relay(console: Any, keyboard: int, screen: int) -> None:
    """Relays data in both directions, until one side ends or the user types Ctrl-]."""
    console.settimeout(None)
    sources: list[Any] = [console.sock, keyboard]
    while True:
        ready, _, _ = select.select(sources, [], [])
        if keyboard in ready:
            typed = os.read(keyboard, CHUNK)
            before, escape, _ = typed.partition(ESCAPE)
            if before:
                console.send_binary(before)
            if escape:
                return
            if not typed:
                # A pipe has ended; the output of the guest is shown until the console ends.
                sources.remove(keyboard)
        if console.sock in ready and not _show(console, screen):
            return


def _show(console: Any, screen: int) -> bool:
    """Shows everything that has arrived. Returns False if the console has ended."""
    while True:
        try:
            opcode, data = console.recv_data()
        except (OSError, websocket.WebSocketException):
            return False
        if opcode == websocket.ABNF.OPCODE_CLOSE:
            return False
        os.write(screen, data)
        # If one TLS record contains several messages, the later ones have already left the socket, so select would not
        # see them.
        if not (isinstance(console.sock, ssl.SSLSocket) and console.sock.pending()):
            return True


@contextmanager
def raw_terminal(keyboard: int) -> Iterator[None]:
    """Sends every key to the guest, including Ctrl-C. Does nothing if `keyboard` is not a terminal."""
    if not os.isatty(keyboard):
        yield
        return
    before = termios.tcgetattr(keyboard)
    # Keys typed meanwhile are for the guest: TCSAFLUSH, the default, would discard them.
    tty.setraw(keyboard, termios.TCSADRAIN)
    try:
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
