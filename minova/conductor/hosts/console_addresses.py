"""Where each host serves the consoles of its guests.

When a host first registers, its addresses are recorded, even if it sends none. Later only an operator can set others.
So an attacker who controls a host cannot direct minova-consoleproxy, and with it a user, to the consoles of other hosts
or to other servers. Loopback addresses are not recorded, because the proxy uses only those of its own host.
"""

import logging
from collections.abc import Iterable, Sequence

from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.hosts.liveness import COMPUTE
from minova.db.hosts import identity, services
from minova.db.models import Service
from minova.objects.guests.console import canonical_address, is_loopback

LOG = logging.getLogger(__name__)

COMMAND = "minova-manage host console-addresses"
# The most addresses of one host.
MAX_ADDRESSES = 4


def record(session: Session, row: Service, named: Sequence[str]) -> None:
    """Record the addresses that a compute names when it registers. `row` is locked."""
    addresses = _worth_recording(named)
    recorded = row.console_addresses
    if recorded is None:
        recorded = [address for address in sorted(addresses) if _owner(session, row.host, address) is None][
            :MAX_ADDRESSES
        ]
        services.change(session, row.id, console_addresses=recorded)
    if refused := sorted(addresses - set(recorded)):
        LOG.warning(
            "Host %s says that it serves consoles at %s, which is not recorded for it: no console is opened there. If that is "
            "its address, run on a controller: %s %s %s",
            row.host,
            ", ".join(refused),
            COMMAND,
            row.host,
            " ".join(sorted(addresses)),
        )


def assign(session: Session, host: str, addresses: Sequence[str]) -> list[str]:
    """Record the addresses that an operator gives; returns the recorded addresses.

    Raises NotFound if there is no such host. Raises Conflict if an address is another host's. Raises BadRequest if it
    is not the address of one machine.
    """
    row = identity.service_of(session, host, COMPUTE)
    if row is None:
        raise errors.NotFound(f"There is no minova-compute on host {host}.")
    bad = [address for address in addresses if canonical_address(address) is None]
    if bad:
        raise errors.BadRequest(f"{bad[0]} is not the IP address of a machine.")
    recorded = sorted(_worth_recording(addresses))
    if len(recorded) > MAX_ADDRESSES:
        raise errors.BadRequest(f"A host serves consoles at {MAX_ADDRESSES} addresses at most.")
    for address in recorded:
        owner = _owner(session, host, address)
        if owner is not None:
            raise errors.Conflict(f"{address} is recorded for host {owner}. Give that host its addresses first.")
    services.change(session, row.id, console_addresses=recorded)
    return recorded


def addresses_of(session: Session, host: str) -> tuple[str, ...]:
    row = services.find(session, host, COMPUTE)
    return tuple(row.console_addresses or ()) if row is not None else ()


def _worth_recording(named: Iterable[str]) -> set[str]:
    addresses = {canonical_address(text) for text in named}
    return {address for address in addresses if address is not None and not is_loopback(address)}


def _owner(session: Session, host: str, address: str) -> str | None:
    """Returns the other host that has this address."""
    host_addresses = services.console_addresses(session)
    return next((name for name, addresses in host_addresses if address in addresses and name != host), None)
