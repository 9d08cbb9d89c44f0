"""A private Galera cluster on the loopback: two MariaDBs, both of which take writes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Self

from tests.servers.mariadb import MariaDB
from tests.servers.private_server import ServerError, program

PROVIDER = Path("/usr/lib/galera/libgalera_smm.so")
PACKAGE = "galera-4"


class Node(MariaDB):
    """`first`: the node whose cluster it joins; None: it makes one. Both are new then, so that nothing is to be copied."""

    name = "galera"
    # For clients, for the group communication, and for writes that a node has missed.
    ports_needed = 3

    def __init__(self, first: Node | None = None) -> None:
        super().__init__()
        self._first = first

    def prepare(self) -> None:
        if not PROVIDER.exists():
            raise ServerError(f"{PROVIDER} is not installed: it is in the Debian package {PACKAGE}")
        super().prepare()
        (self.directory / "first.sql").write_text("")
        if self._first is not None:
            # Where the first one stands. Without this it would ask for a copy of all that the first one has.
            lines = (
                "# GALERA saved state",
                "version: 2.1",
                f"uuid: {self._first.status('wsrep_cluster_state_uuid')}",
                f"seqno: {self._first.status('wsrep_last_committed')}",
                "safe_to_bootstrap: 0",
            )
            (self._data / "grastate.dat").write_text("\n".join(lines) + "\n")

    def more_options(self) -> list[str]:
        _, group, missed = self.ports
        others = "" if self._first is None else f"127.0.0.1:{self._first.ports[1]}"
        return [
            "--wsrep-on=ON",
            f"--wsrep-provider={PROVIDER}",
            f"--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{group};ist.recv_addr=127.0.0.1:{missed};gcache.size=32M",
            f"--wsrep-cluster-address=gcomm://{others}",
            f"--wsrep-node-address=127.0.0.1:{group}",
            f"--wsrep-node-name=node{group}",
            "--wsrep-sst-method=skip",
            "--binlog-format=ROW",
            "--innodb-autoinc-lock-mode=2",
        ]

    def answers(self) -> bool:
        try:
            return super().answers() and self.status("wsrep_local_state_comment") == "Synced"
        except subprocess.CalledProcessError:
            return False

    def status(self, name: str) -> str:
        client = program("mariadb", "mariadb-client-core")
        query = f"SELECT variable_value FROM information_schema.global_status WHERE variable_name = '{name}'"
        result = subprocess.run(
            [client, "--no-defaults", "--user=root", f"--socket={self.directory}/socket", "--batch"]
            + ["--skip-column-names", f"--execute={query}"],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
        return result.stdout.strip()

    def catch_up(self) -> None:
        """Wait until it shows all that any node has committed before."""
        self._execute("SET SESSION wsrep_sync_wait = 1; SELECT 1")


class Galera:
    """`fresh_urls()` makes an empty database, and gives its SQLAlchemy URL at each of the two nodes."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def __enter__(self) -> Self:
        try:
            first = Node()
            self.nodes.append(first)
            first.open()
            second = Node(first)
            self.nodes.append(second)
            second.open()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.close()

    def fresh_urls(self) -> tuple[str, str]:
        first, second = self.nodes
        url = first.fresh_url()
        second.catch_up()
        return url, url.replace(f":{first.ports[0]}/", f":{second.ports[0]}/")
