"""minova-network-helper: makes the local networks of a host as root, for minova-compute, which is not root."""

import argparse
import grp
import logging
import pwd
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import NoReturn

from minova.conf.networks import HELPER
from minova.virt.namespaces.helper import Helper
from minova.virt.namespaces.namespaces import RUN, Namespaces

BINARY = "minova-network-helper"


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(0)


def parser_of_helper() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=BINARY, description="Makes the local networks of this host, for minova-compute and minova-metadata."
    )
    parser.add_argument("--user", default="minova", help="the user of these services, which may ask for all, as root")
    parser.add_argument(
        "--group",
        default="",
        help="the group whose members may connect to guests, for minova server ssh (default: none)",
    )
    parser.add_argument("--socket", type=Path, default=Path(HELPER), help="where they ask: [networks] helper_socket")
    parser.add_argument(
        "--run-dir", type=Path, default=RUN, help="where it notes what it has made; it ends with the host"
    )
    return parser


def main() -> NoReturn:
    options = parser_of_helper().parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        uid = int(options.user) if options.user.isdigit() else pwd.getpwnam(options.user).pw_uid
        gid = grp.getgrnam(options.group).gr_gid if options.group else None
        helper = Helper(options.socket, Namespaces(options.run_dir), uid, gid)
        listening = helper.listen()
    except (KeyError, OSError) as error:
        sys.exit(f"{BINARY}: {error}")
    # What it has made stays: guests run on.
    signal.signal(signal.SIGTERM, _end)
    helper.serve(listening)
