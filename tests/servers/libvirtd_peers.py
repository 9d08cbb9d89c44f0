"""Private libvirtds that reach each other: each in a network namespace of its own, joined by a cable, with a host name of its own.

A namespace outlives its libvirtd, so that guests keep their network while it is killed and started again.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.servers.authority import Authority
from tests.servers.libvirtd import Libvirtd
from tests.servers.namespace import Namespace

ADDRESSES = ("10.77.0.1", "10.77.0.2")
_LISTEN = """\
listen_tcp = 1
listen_addr = "{address}"
auth_tcp = "none"
"""
_LISTEN_TLS = """\
listen_tls = 1
listen_addr = "{address}"
"""
_ENTER = """\
set -eu
hostname "$1"
mkdir -p /etc/pki
mount --bind "$2" /etc/pki
shift 2
exec "$@"
"""


class PeerLibvirtd(Libvirtd):
    """`authority`: whose certificates it has for libvirt and QEMU; None: it listens without TLS."""

    def __init__(self, host: str, address: str, namespace: str, authority: Authority | None, **options: Any) -> None:
        super().__init__(**options)
        self.host, self.address = host, address
        self.namespace = namespace
        self._authority = authority

    def prepare(self) -> None:
        super().prepare()
        pki = self.directory / "pki"
        pki.mkdir(exist_ok=True)
        if self._authority is not None:
            self._issue(pki, self._authority)
        configuration = self.directory / "etc" / "libvirtd.conf"
        text = configuration.read_text()
        if "listen_addr" not in text:
            listen = _LISTEN if self._authority is None else _LISTEN_TLS
            without = text if self._authority is None else text.replace("listen_tls = 0\n", "")
            configuration.write_text(without + listen.format(address=self.address))

    def _issue(self, pki: Path, authority: Authority) -> None:
        """The names of Debian's packages for the files."""
        issued = authority.issue(self.host, pki, f"DNS:{self.host},IP:{self.address}")
        for folder, files in {
            "libvirt": {"servercert.pem": issued.certificate, "clientcert.pem": issued.certificate},
            "libvirt/private": {"serverkey.pem": issued.key, "clientkey.pem": issued.key},
            "CA": {"cacert.pem": authority.certificate},
            "qemu": {
                "ca-cert.pem": authority.certificate,
                "server-cert.pem": issued.certificate,
                "server-key.pem": issued.key,
                "client-cert.pem": issued.certificate,
                "client-key.pem": issued.key,
            },
        }.items():
            (pki / folder).mkdir(parents=True, exist_ok=True)
            for name, original in files.items():
                (pki / folder / name).write_bytes(original.read_bytes())

    def command(self) -> list[str]:
        space = ["nsenter", f"--net=/run/netns/{self.namespace}", "unshare", "--uts", "--mount", "--propagation=slave"]
        return [
            *space,
            "sh",
            "-c",
            _ENTER,
            "sh",
            self.host,
            str(self.directory / "pki"),
            *super().command(),
            "--listen",
        ]

    def environment(self) -> dict[str, str]:
        return super().environment() | {"NETWORKS": "1"}

    @property
    def network(self) -> Namespace:
        assert self.pid is not None
        return Namespace(self.pid)


@contextmanager
def peers(authority: Authority | None = None) -> Iterator[tuple[PeerLibvirtd, PeerLibvirtd]]:
    with ExitStack() as stack:
        names = [f"minova-{os.getpid()}-{number}" for number in (1, 2)]
        for name in names:
            _ip("netns", "add", name)
            stack.callback(_ip, "netns", "delete", name)
        _ip("link", "add", "cable", "netns", names[0], "type", "veth", "peer", "name", "cable", "netns", names[1])
        peer_list = []
        for name, host, address in zip(names, ("hv1", "hv2"), ADDRESSES, strict=True):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
            for link in ("lo", "cable"):
                _ip("-n", name, "link", "set", link, "up")
            peer_list.append(stack.enter_context(PeerLibvirtd(host, address, name, authority)))
        yield peer_list[0], peer_list[1]


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=120)
