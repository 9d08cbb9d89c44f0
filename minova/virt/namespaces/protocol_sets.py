"""Sets of the kernel (ipset) by which libvirt's filters know protocols for which they have no element of their own.

A set has all addresses with one number of a protocol: `hash:net,port` has no range of length 0, so it has two halves. It
never changes, so that filters of all ports share it, and it ends with the host.
"""

from collections.abc import Collection

from minova.virt.namespaces.kernel import run

_FAMILIES = {4: ("inet", "0.0.0.0/1", "128.0.0.0/1"), 6: ("inet6", "::/1", "8000::/1")}


def set_name(number: int, ip_version: int) -> str:
    return f"minova-protocol-{number}-{ip_version}"


def make_sets(numbers: Collection[int]) -> None:
    """Make the sets of these protocols that are not there. Idempotent. Raises HypervisorError if the host cannot have them,
    ValueError if a number is no protocol's.
    """
    lines = []
    for number in sorted(numbers):
        if not 1 <= number <= 255:
            raise ValueError(f"{number} is no number of a protocol")
        for version, (family, *halves) in _FAMILIES.items():
            name = set_name(number, version)
            lines.append(f"create {name} hash:net,port family {family} hashsize 64 maxelem 8")
            lines += (f"add {name} {half},{number}:0" for half in halves)
    if lines:
        run(["ipset", "-exist", "restore"], "".join(f"{line}\n" for line in lines))
