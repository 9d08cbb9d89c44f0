"""Nova's server group."""

import msgspec

AFFINITY = "affinity"
ANTI_AFFINITY = "anti-affinity"
SOFT_AFFINITY = "soft-affinity"
SOFT_ANTI_AFFINITY = "soft-anti-affinity"
POLICIES = (AFFINITY, ANTI_AFFINITY, SOFT_AFFINITY, SOFT_ANTI_AFFINITY)


class InstanceGroup(msgspec.Struct, frozen=True, kw_only=True):
    """`members`: instance uuids. `hosts`: the hosts of the members, as far as the reader knew them."""

    uuid: str
    name: str = ""
    policy: str
    max_server_per_host: int | None = None
    project_id: str = ""
    user_id: str = ""
    members: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    @property
    def rules(self) -> dict[str, int]:
        """Returns the rules as the Compute API shows them."""
        return {} if self.max_server_per_host is None else {"max_server_per_host": self.max_server_per_host}

    @property
    def most_per_host(self) -> int | None:
        """Returns the maximum number of members on a host; None if the policy sets no maximum."""
        return (self.max_server_per_host or 1) if self.policy == ANTI_AFFINITY else None
