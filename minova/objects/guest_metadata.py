"""What the metadata service knows of a guest."""

import msgspec

from minova.objects.instance import Instance

# Where guests ask.
ADDRESS = "169.254.169.254"
PORT = 80
# Bytes of a password that a guest leaves, which it has encrypted: Nova's.
LONGEST_PASSWORD = 1020
# In `system_metadata`.
PASSWORD = "password"


class GuestMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """`availability_zone`: of the host; empty: the default one."""

    instance: Instance
    availability_zone: str = ""

    @property
    def password(self) -> str:
        """Empty: the guest has left none."""
        return self.instance.system_metadata.get(PASSWORD, "")
