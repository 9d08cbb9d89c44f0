"""A Neutron that keeps books: networks, security groups, and ports that agents bind. It can end, as a killed conductor would see it, at any request."""

import itertools
import logging
from collections.abc import Callable, Iterable
from typing import Any

from minova import errors
from minova.outages import Outage

NETWORK = {"id": "net-1", "name": "blue", "mtu": 1450, "subnets": ["sub-1"]}
SUBNET = {
    "id": "sub-1",
    "cidr": "10.0.0.0/24",
    "gateway_ip": "10.0.0.1",
    "enable_dhcp": True,
    "dns_nameservers": ["9.9.9.9"],
}


class Killed(BaseException):
    """The process ends here: nothing of it goes on."""


class FakeNeutron:
    """Has the methods of `NeutronClient`. `hosts`: with an agent. `kill_at`: the number of the request, from 1, at which the asker dies;
    with `after` the request is done, and only its answer is missing.
    """

    def __init__(self, hosts: tuple[str, ...] = ("a", "b")) -> None:
        self.hosts = hosts
        self.books: dict[str, dict[str, Any]] = {}
        # What happens inside a request, before it is done: by its kind and the port, or "" for lists and new ones.
        self.during: dict[tuple[str, str], Callable[[], None]] = {}
        self.kill_at = 0
        self.after = False
        # As lists show them.
        self.groups: list[dict[str, Any]] = []
        # It has every network but these.
        self.deleted_networks: set[str] = set()
        self.subnets_of: dict[str, list[dict[str, Any]]] = {}
        # Kind and filters of each list that was asked for.
        self.lists: list[tuple[str, dict[str, Any]]] = []
        self.tokens: set[str | None] = set()
        self.requests = 0
        # (port, host) of inactive bindings; `extended` False: without the extension.
        self.inactive: set[tuple[str, str]] = set()
        self.extended = True
        self.outage = Outage("Neutron", logging.getLogger(__name__), gauge="neutron")
        self._numbers = itertools.count(1)

    def _begin(self, kind: str = "", port_id: str = "") -> None:
        """`during`: it may raise what Neutron answers."""
        self.requests += 1
        self.during.get((kind, port_id), lambda: None)()
        if self.requests == self.kill_at and not self.after:
            raise Killed

    def _end(self) -> None:
        if self.requests == self.kill_at and self.after:
            raise Killed

    def within(self, seconds: float) -> "FakeNeutron":
        return self

    def networks(self, token: str | None = None, **filters: Any) -> list[dict[str, Any]]:
        return [NETWORK]

    def network(self, network_id: str, token: str | None = None) -> dict[str, Any] | None:
        return None if network_id in self.deleted_networks else {**NETWORK, "id": network_id, "shared": True}

    def subnets(self, network_id: str, token: str | None = None) -> list[dict[str, Any]]:
        return self.subnets_of.get(network_id, [SUBNET])

    def ports(self, token: str | None = None, **filters: Any) -> list[dict[str, Any]]:
        self._begin("GET")
        self.tokens.add(token)
        ports_found = self._found("ports", self.books.values(), filters)
        self._end()
        return ports_found

    def security_groups(self, token: str | None = None, **filters: Any) -> list[dict[str, Any]]:
        self.tokens.add(token)
        return self._found("security_groups", self.groups, filters)

    def _found(self, kind: str, books: Iterable[dict[str, Any]], filters: dict[str, Any]) -> list[dict[str, Any]]:
        self.lists.append((kind, filters))
        values_by_key = {
            key: value if isinstance(value, list) else [value] for key, value in filters.items() if key != "fields"
        }
        matching_books = [
            book for book in books if all(book.get(key) in values for key, values in values_by_key.items())
        ]
        return [{key: book[key] for key in filters.get("fields", book) if key in book} for book in matching_books]

    def port(self, port_id: str, token: str | None = None) -> dict[str, Any] | None:
        self._begin("GET", port_id)
        self._end()
        return dict(self.books[port_id]) if port_id in self.books else None

    def create_port(self, port: dict[str, Any]) -> dict[str, Any]:
        self._begin("POST")
        number = next(self._numbers)
        uuid = f"00000000-0000-4000-8000-{number:012d}"
        self.books[uuid] = {
            "id": uuid,
            "mac_address": f"FA:16:3E:00:00:{number:02x}",
            "device_id": "",
            "device_owner": "",
            "binding:host_id": "",
            "binding:vif_type": "unbound",
            "status": "DOWN",
            "security_groups": [],
            "revision_number": 1,
            "fixed_ips": [{"subnet_id": "sub-1", "ip_address": f"10.0.0.{number + 1}"}],
            **port,
        }
        self._bind(uuid)
        self._end()
        return dict(self.books[uuid])

    def update_port(
        self,
        port_id: str,
        port: dict[str, Any],
        tries: int | None = None,
        token: str | None = None,
        revision: int | None = None,
    ) -> dict[str, Any]:
        self._begin("PUT", port_id)
        self.tokens.add(token)
        if port_id not in self.books:
            raise errors.PortNotFound(port_id)
        stored_port = self.books[port_id]
        if revision is not None and stored_port["revision_number"] != revision:
            raise errors.RevisionNumberConstraintFailed(port_id)
        stored_port.update(port, revision_number=stored_port["revision_number"] + 1)
        for fixed in stored_port["fixed_ips"]:
            fixed.setdefault("ip_address", f"10.0.0.{next(self._numbers) + 100}")
        self._bind(port_id)
        self._end()
        return dict(self.books[port_id])

    def bindings(self, port_id: str) -> list[dict[str, Any]]:
        self._begin("GET", port_id)
        if not self.extended or port_id not in self.books:
            raise errors.NotFound(port_id)
        port = self.books[port_id]
        active = {"host": port["binding:host_id"], "vif_type": port["binding:vif_type"], "status": "ACTIVE"}
        self._end()
        return [active, *({"host": host, "vif_type": "ovs", "status": "INACTIVE"} for host in self.prepared(port_id))]

    def create_binding(self, port_id: str, host: str) -> dict[str, Any]:
        self._begin("POST", port_id)
        if host not in self.hosts:
            raise errors.PortBindingFailed(host)
        if host in self.prepared(port_id):
            raise errors.BadRequest(host)
        self.inactive.add((port_id, host))
        self._end()
        return {"host": host, "vif_type": "ovs", "vif_details": {"bridge_name": f"br-{host}"}, "status": "INACTIVE"}

    def activate_binding(self, port_id: str, host: str) -> None:
        self._begin("PUT", port_id)
        if host not in self.prepared(port_id):
            raise errors.NotFound(host)
        self.inactive.remove((port_id, host))
        self.inactive.add((port_id, self.books[port_id]["binding:host_id"]))
        self.books[port_id]["binding:host_id"] = host
        self._end()

    def delete_binding(self, port_id: str, host: str) -> None:
        self._begin("DELETE", port_id)
        self.inactive.discard((port_id, host))
        self._end()

    def prepared(self, port_id: str) -> set[str]:
        """The hosts of its inactive bindings."""
        return {host for port, host in self.inactive if port == port_id}

    def delete_port(self, port_id: str) -> None:
        self._begin("DELETE", port_id)
        self.books.pop(port_id, None)
        self._end()

    def _bind(self, uuid: str) -> None:
        port = self.books[uuid]
        host = port["binding:host_id"]
        port["binding:vif_type"] = "unbound" if not host else "ovs" if host in self.hosts else "binding_failed"
