"""CPU times of a host since it was started, summed over all its CPUs."""

import msgspec


class CpuTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Nanoseconds; `frequency` in MHz."""

    user: int
    kernel: int
    idle: int
    iowait: int
    frequency: int

    @property
    def used(self) -> int:
        return self.user + self.kernel + self.iowait

    @property
    def total(self) -> int:
        return self.used + self.idle
