"""Which CPUs of a host guests may run on, from the operator's options. Pure; Nova's rules since 20.0.0.

neither set                  every CPU, for shared and for pinned guests
cpu_shared_set               these for shared guests; without a dedicated set, pinned guests have none
cpu_dedicated_set            these for pinned guests; alone, shared guests have none
vcpu_pin_set (the old way)   these for both; a shared set beside it is for emulator threads alone
"""

import msgspec

from minova.errors import InvalidConfiguration
from minova.hardware import cpu_spec
from minova.objects.hosts.numa import CPUs

PIN_SET = "[DEFAULT] vcpu_pin_set"
SHARED_SET = "[compute] cpu_shared_set"
DEDICATED_SET = "[compute] cpu_dedicated_set"


class CpuSets(msgspec.Struct, frozen=True, kw_only=True):
    """`limited`: guests without cells may use only the shared CPUs, too.

    `counted`: how many CPUs are offered to Placement as VCPU and as PCPU. CPUs for pinned guests are PCPU only if the
    operator set them apart.
    `emulator`: where emulator threads with policy share run; None: on their guest's CPUs.
    """

    shared: CPUs
    dedicated: CPUs
    limited: bool
    counted: tuple[int, int]
    emulator: CPUs | None = None


def cpu_sets(pin_set: str | None, shared_set: str | None, dedicated_set: str | None, of_host: CPUs) -> CpuSets:
    """Raises InvalidConfiguration, which names the option, if a value is no set of CPUs, a CPU does not exist, or two
    options exclude each other.
    """
    if pin_set and dedicated_set:
        raise InvalidConfiguration(f"{PIN_SET} and {DEDICATED_SET} exclude each other: set {SHARED_SET} instead of it")
    pinned = _parsed(PIN_SET, pin_set, of_host)
    shared = _parsed(SHARED_SET, shared_set, of_host)
    dedicated = _parsed(DEDICATED_SET, dedicated_set, of_host)
    if shared is not None and dedicated is not None and shared & dedicated:
        raise InvalidConfiguration(
            f"{SHARED_SET} and {DEDICATED_SET} have CPUs {cpu_spec.write(shared & dedicated)} in common"
        )
    if pinned is not None:
        for_shared = for_pinned = pinned
    elif shared is None and dedicated is None:
        for_shared = for_pinned = of_host
    else:
        for_shared, for_pinned = shared or frozenset(), dedicated or frozenset()
    return CpuSets(
        shared=for_shared,
        dedicated=for_pinned,
        limited=bool(pin_set or shared_set or dedicated_set),
        counted=(len(for_shared), 0 if dedicated is None else len(dedicated)),
        emulator=shared,
    )


def _parsed(option: str, text: str | None, of_host: CPUs) -> CPUs | None:
    if not text:
        return None
    try:
        cpus = cpu_spec.parse(text)
    except ValueError as error:
        raise InvalidConfiguration(f"{option} = {text}: {error}") from error
    missing = cpus - of_host
    if missing:
        raise InvalidConfiguration(
            f"{option} = {text}: the host has no CPU {cpu_spec.write(missing)}, only {cpu_spec.write(of_host)}"
        )
    return cpus
