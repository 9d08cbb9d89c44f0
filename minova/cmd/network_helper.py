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
from minova.conf import libvirt, networks
from minova.conf.libvirt import uri_of
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
        help="where [networks] bridge_mappings is, which names the bridges that the helper may use, and [libvirt] connection_uri, for whose "
        f"guests it works; may be repeated (default: {DEFAULT_FILE}, if there is one). The bridges are read again for each use",
    )
    parser.add_argument(
        "--run-dir",
        type=Path,
        help=f"where it notes what it has made; it ends with the host (default: {RUN}, and in a network namespace of its own a folder below "
        "it, so that two hosts of one machine stand apart)",
    )
    parser.add_argument(
        "--remove-networks-of",
        metavar="URI",
        help="remove the networks of this libvirtd, which is gone for ever (`owner` in their records), and end",
    )
    return parser


def bridges_of(files: Sequence[str]) -> Collection[str]:
    """Returns the bridges that these files name. Raises HypervisorError if one cannot be read: minova-compute cannot
    start with it, either.
    """
    try:
        return frozenset(_read(files).networks.bridge_mappings.values())
    except (cfg.Error, ValueError) as error:
        raise errors.HypervisorError(f"the bridges of this host are not known: {error}") from error


def owner_of(files: Sequence[str]) -> str:
    """Returns the owner of the networks: the libvirtd that these files name. Raises HypervisorError as `bridges_of`."""
    try:
        return uri_of(_read(files))
    except (cfg.Error, ValueError) as error:
        raise errors.HypervisorError(f"the libvirtd of this host is not known: {error}") from error


def _remove_all(namespaces: NetworkNamespaces, owner: str) -> None:
    """Raises HypervisorError if nothing is there for this owner."""
    owners = namespaces.owners()
    if owner not in owners:
        present = ", ".join(map(repr, sorted(owners))) or "none"
        raise errors.HypervisorError(f"in {namespaces.run_folder} no network is of {owner!r}; owners there: {present}")
    namespaces.remove_all()


def _read(files: Sequence[str]) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    for module in (networks, libvirt):
        conf.register_opts(module.OPTS, group=module.GROUP)
    conf([], project="minova", default_config_files=list(files), default_config_dirs=[])
    return conf


def main() -> NoReturn:
    options = parser_of_helper().parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        files = options.config_file or [name for name in (DEFAULT_FILE,) if Path(name).exists()]
        bridges = partial(bridges_of, files)
        owner = owner_of(files) if options.remove_networks_of is None else options.remove_networks_of
        if options.run_dir is None:
            namespaces = of_namespace(OWN, bridges, owner)
        else:
            namespaces = NetworkNamespaces(options.run_dir, bridges=bridges, owner=owner)
        if options.remove_networks_of is not None:
            _remove_all(namespaces, owner)
            sys.exit()
        uid = int(options.user) if options.user.isdigit() else pwd.getpwnam(options.user).pw_uid
        gid = grp.getgrnam(options.group).gr_gid if options.group else None
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
    except (KeyError, OSError, errors.MinovaError) as error:
        sys.exit(f"{BINARY}: {error}")
