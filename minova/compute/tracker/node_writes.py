"""Writes of a node's row on their way to the conductor, numbered in the order in which the tracker made them."""

import msgspec

from minova.objects.hosts.compute_node import ComputeNode


class WriteOrder:
    """Numbers the writes of this process for one node, so that a late write cannot undo a newer one.

    Used under the tracker's lock. `epoch` comes with the registration; it is 0 while the conductors do not number
    processes.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self._number = 0
        self._acknowledged = 0

    def stamped(self, node: ComputeNode) -> ComputeNode:
        if not self.epoch:
            return node
        self._number += 1
        return msgspec.structs.replace(
            node, writer_epoch=self.epoch, write_number=self._number, acknowledged=self._acknowledged
        )

    def acknowledge(self, node: ComputeNode) -> None:
        """Record that this stamped node was written, or that it arrived after a later write."""
        self._acknowledged = max(self._acknowledged, node.write_number)


class NodeWrite(msgspec.Struct, frozen=True, eq=False):
    """A node that is sent to the conductor with reports. `saved` is its row as known at that time."""

    node: ComputeNode
    sent: ComputeNode
    saved: ComputeNode | None
