"""How a host encrypts the memory of guests. Pure."""

import msgspec


class MemoryEncryption(msgspec.Struct, frozen=True, kw_only=True):
    """AMD's SEV, as libvirt reports it. `contexts`: the number of guests that may have it; None: libvirt does not know."""

    cbitpos: int
    reduced_bits: int
    contexts: int | None = None
