"""Indexes the nodes of each instance, so that a group's hosts are found without a search of all hosts, and the rows of
each host.
"""

from collections.abc import Iterable, Sequence

from minova.scheduler.hosts.record import HostRecord


class InstanceIndex:
    """An instance is normally on one node. While it moves, or in a scenario, it may be on several."""

    def __init__(self) -> None:
        self._one: dict[str, int] = {}
        self._more: dict[str, frozenset[int]] = {}

    def copy(self) -> "InstanceIndex":
        copy = InstanceIndex()
        copy._one, copy._more = dict(self._one), dict(self._more)
        return copy

    def put(self, node_id: int, uuids: Iterable[str]) -> None:
        for uuid in uuids:
            first = self._one.setdefault(uuid, node_id)
            if first != node_id:
                self._more[uuid] = self._more.get(uuid, frozenset()) | {node_id}

    def drop(self, node_id: int, uuids: Iterable[str]) -> None:
        for uuid in uuids:
            other_nodes = sorted(self.nodes(uuid) - {node_id})
            self._one.pop(uuid, None)
            self._more.pop(uuid, None)
            for other in other_nodes:
                self.put(other, (uuid,))

    def nodes(self, uuid: str) -> frozenset[int]:
        first = self._one.get(uuid)
        if first is None:
            return frozenset()
        return self._more.get(uuid, frozenset()) | {first}


class RowsOfHosts:
    """The rows of a host's nodes, by the host's name in lower case. Built at the first use."""

    def __init__(self) -> None:
        self._rows: dict[str, list[int]] | None = None

    def forget(self) -> None:
        self._rows = None

    def of(self, records: Sequence[HostRecord], lowered: str) -> list[int]:
        if self._rows is None:
            self._rows = {}
            for row, record in enumerate(records):
                self._rows.setdefault(record.host.lower(), []).append(row)
        return self._rows.get(lowered, [])
