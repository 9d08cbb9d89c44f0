"""The metadata service's data of a guest."""

import msgspec

from minova.objects.servers.instance import Instance

# The address that guests query.
ADDRESS = "169.254.169.254"
PORT = 80
# The maximum size in bytes of the encrypted password that a guest stores, as in Nova.
LONGEST_PASSWORD = 1020
# The key in `system_metadata`.
PASSWORD = "password"


class GuestMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """`availability_zone`: of the host; empty: the default zone."""

    instance: Instance
    availability_zone: str = ""

    @property
    def password(self) -> str:
        """Returns the stored password; empty if the guest has stored none."""
        return self.instance.system_metadata.get(PASSWORD, "")
