"""The rules of a host's interfaces, combined with the newest members of their security groups."""

from collections.abc import Iterable

from minova.objects.network.vif import GroupMembers, Vif, with_members

# The number of groups whose members are kept, the most recent ones. For other groups the members in the interface's own
# message count.
MAX_GROUPS = 512


class PortRules:
    """Not safe for threads. An interface and the members of its groups come in separate messages, in any order; the
    newer one counts.
    """

    def __init__(self) -> None:
        self._vifs: dict[str, Vif] = {}
        self._members: dict[str, GroupMembers] = {}

    def define(self, vif: Vif) -> Vif:
        """Record the interface, and return it with the current members of its groups."""
        current = with_members(vif, self._members)
        self._vifs[vif.port_id] = current
        return current

    def learn(self, members: Iterable[GroupMembers]) -> list[Vif]:
        """Record the members, and return the interfaces whose rules have changed by them."""
        for received in members:
            stored = self._members.get(received.group_id)
            if stored is None or received.revision > stored.revision:
                self._members.pop(received.group_id, None)
                self._members[received.group_id] = received
        for oldest in [*self._members][:-MAX_GROUPS]:
            del self._members[oldest]
        before = list(self._vifs.values())
        return [after for vif in before if _differs(vif, after := self.define(vif))]

    def current(self, port_id: str) -> Vif | None:
        """Returns the interface with its current rules, or None if it is not known."""
        return self._vifs.get(port_id)

    def forget(self, port_id: str) -> None:
        self._vifs.pop(port_id, None)


def _differs(vif: Vif, other: Vif) -> bool:
    """Whether the rules allow different remotes. A new revision number alone is no difference."""
    return [rule.remotes for rule in vif.rules or ()] != [rule.remotes for rule in other.rules or ()]
