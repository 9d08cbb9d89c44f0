"""The way of `minova server ssh` to guests of `local` networks on the host that it runs on.

The host has no route to most of these networks: each has a network namespace. root runs ssh in the namespace. For
others minova-network-helper makes the connection there, if they may open its socket:

    python -m minova.cli.commands.server.reach SOCKET NETWORK_ID ADDRESS PORT

is the ProxyCommand, which asks the helper for the connected socket and hands it to ssh (ProxyUseFdpass).
"""

import json
import os
import shlex
import socket
import struct
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from minova.cli.client import COMPUTE, Client, Json, part
from minova.uuids import is_uuid

# Where the kernel names the namespaces of this host, and where minova-network-helper listens.
NAMESPACES = Path("/run/netns")
HELPER = Path("/run/minova/network.sock")
# Seconds that the helper may take: it waits for the guest.
WITHIN = 30.0
_LENGTH = struct.Struct("!I")
_LONGEST = 1 << 20


class Way(NamedTuple):
    """The command before ssh, and options of ssh."""

    before: Sequence[str] = ()
    options: Sequence[str] = ()


def way_to(client: Client, server: Json, address: str) -> Way:
    """Returns the way to this address of a server. An address on no network with a namespace here, and an IPv6
    address, is reached directly.
    """
    if ":" in address or not any(NAMESPACES.glob("minova-*")):
        return Way()
    network_id = _network_of(client, server, address)
    namespace = NAMESPACES / f"minova-{network_id}"
    # What the API says becomes a path and a word of a command.
    if network_id is None or not is_uuid(network_id) or not namespace.exists():
        return Way()
    if os.geteuid() == 0:
        return Way(before=("nsenter", f"--net={namespace}"))
    if not os.access(HELPER, os.W_OK):
        return Way()
    program = [sys.executable, "-m", __name__, str(HELPER), network_id]
    command = " ".join(shlex.quote(word).replace("%", "%%") for word in program)
    return Way(options=("-o", "ProxyUseFdpass=yes", "-o", f"ProxyCommand={command} {address} %p"))


def _network_of(client: Client, server: Json, address: str) -> str | None:
    path = f"{COMPUTE}/servers/{part(server['id'])}/os-interface"
    for interface in client.get(path)["interfaceAttachments"]:
        if address in {fixed["ip_address"] for fixed in interface["fixed_ips"]}:
            return str(interface["net_id"])
    return None


def connect(helper: Path, network_id: str, address: str, port: int) -> int:
    """Returns a file descriptor: a connection to the address, made in the network's namespace. Raises ConnectionError
    with the reason if there is none.
    """
    call = {"type": "Connect", "network_id": network_id, "address": address, "port": port}
    body = json.dumps(call).encode()
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(WITHIN)
        asking.connect(str(helper))
        asking.sendall(_LENGTH.pack(len(body)) + body)
        head, handles, _, _ = socket.recv_fds(asking, _LENGTH.size, 1)
        if len(head) < _LENGTH.size:
            raise ConnectionError("minova-network-helper has closed the connection")
        answer: Mapping[str, Any] = json.loads(_exactly(asking, min(_LENGTH.unpack(head)[0], _LONGEST)))
    if not handles:
        raise ConnectionError(
            answer.get("refused") or answer.get("failed") or "minova-network-helper sent no connection"
        )
    return handles[0]


def _exactly(asking: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = asking.recv(count - len(parts))
        if not part:
            raise ConnectionError("minova-network-helper has closed the connection")
        parts += part
    return bytes(parts)


def main(words: Sequence[str]) -> None:
    helper, network_id, address, port = words
    try:
        handle = connect(Path(helper), network_id, address, int(port))
    except OSError as error:
        sys.exit(f"minova: {address} is not reached by {helper}: {error}")
    with socket.socket(fileno=os.dup(sys.stdout.fileno())) as ssh:
        socket.send_fds(ssh, [b"\0"], [handle])


if __name__ == "__main__":
    main(sys.argv[1:])
