"""What interfaces of a host let through: as it was said of each, with the members of security groups as they were told last."""

from collections.abc import Iterable

from minova.objects.vif import GroupMembers, Vif, with_members

# Groups whose members are kept, those that were told last: after them what is said of an interface counts.
MOST_GROUPS = 512


class PortRules:
    """Not safe for threads. An interface and the members of its groups come in messages of their own, in any order; the newer one counts."""

    def __init__(self) -> None:
        self._vifs: dict[str, Vif] = {}
        self._members: dict[str, GroupMembers] = {}

    def define(self, vif: Vif) -> Vif:
        """What it lets through now."""
        current = with_members(vif, self._members)
        self._vifs[vif.port_id] = current
        return current

    def learn(self, members: Iterable[GroupMembers]) -> list[Vif]:
        """The interfaces that let something else through from now on."""
        for told in members:
            known = self._members.get(told.group_id)
            if known is None or told.revision > known.revision:
                self._members.pop(told.group_id, None)
                self._members[told.group_id] = told
        for oldest in [*self._members][:-MOST_GROUPS]:
            del self._members[oldest]
        before = list(self._vifs.values())
        return [after for vif in before if _differs(vif, after := self.define(vif))]

    def current(self, port_id: str) -> Vif | None:
        """None: it is not known."""
        return self._vifs.get(port_id)

    def forget(self, port_id: str) -> None:
        self._vifs.pop(port_id, None)


def _differs(one: Vif, other: Vif) -> bool:
    """Numbers alone change nothing."""
    return [rule.remotes for rule in one.rules or ()] != [rule.remotes for rule in other.rules or ()]
