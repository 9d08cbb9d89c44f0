"""minova-network-helper: makes the local networks of a host as root, for minova-compute, which is not root."""

import argparse
import grp
import logging
import pwd
import signal
import sys
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NoReturn

from oslo_config import cfg

from minova import errors
from minova.cmd.startup.systemd import Watchdog, notify
from minova.conf import networks
from minova.virt.namespaces.helper import OF_METADATA, Helper, serve_all
from minova.virt.namespaces.host_networks import of_namespace
from minova.virt.namespaces.kernel import OWN
from minova.virt.namespaces.namespaces import RUN, NetworkNamespaces

BINARY = "minova-network-helper"
DEFAULT_FILE = "/etc/minova/minova.conf"


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
    parser.add_argument(
        "--socket", type=Path, default=Path(networks.HELPER), help="where they ask: [networks] helper_socket"
    )
    parser.add_argument(
        "--metadata-socket",
        type=Path,
        default=Path(networks.METADATA_HELPER),
        help="where minova-metadata asks for its sockets: [networks] metadata_helper_socket",
    )
    parser.add_argument(
        "--config-file",
        action="append",
        metavar="FILE",
        help="where [networks] bridge_mappings is, which names the bridges that the helper may use; may be repeated "
        f"(default: {DEFAULT_FILE}, if there is one). It is read again for each use",
    )
    parser.add_argument(
        "--run-dir",
        type=Path,
        help=f"where it notes what it has made; it ends with the host (default: {RUN}, and in a network namespace of its own a folder below "
        "it, so that two hosts of one machine stand apart)",
    )
    return parser


def bridges_of(files: Sequence[str]) -> Collection[str]:
    """Returns the bridges that these files name. Raises HypervisorError if one cannot be read: minova-compute cannot
    start with it, either.
    """
    conf = cfg.ConfigOpts()
    conf.register_opts(networks.OPTS, group=networks.GROUP)
    try:
        conf([], project="minova", default_config_files=list(files), default_config_dirs=[])
        return frozenset(conf.networks.bridge_mappings.values())
    except (cfg.Error, ValueError) as error:
        raise errors.HypervisorError(f"the bridges of this host are not known: {error}") from error


def main() -> NoReturn:
    options = parser_of_helper().parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        uid = int(options.user) if options.user.isdigit() else pwd.getpwnam(options.user).pw_uid
        gid = grp.getgrnam(options.group).gr_gid if options.group else None
        files = options.config_file or [name for name in (DEFAULT_FILE,) if Path(name).exists()]
        bridges = partial(bridges_of, files)
        if options.run_dir is None:
            namespaces = of_namespace(OWN, bridges)
        else:
            namespaces = NetworkNamespaces(options.run_dir, bridges=bridges)
        # Namespaces stay, because guests use them.
        signal.signal(signal.SIGTERM, _end)
        serve_all(
            [
                Helper(options.metadata_socket, namespaces, uid, calls_of_user=OF_METADATA),
                Helper(options.socket, namespaces, uid, gid),
            ],
            ready=lambda: notify(READY="1", STATUS="Serves"),
            alive=Watchdog(),
        )
    except (KeyError, OSError) as error:
        sys.exit(f"{BINARY}: {error}")
