"""The options of live migrations, and what they mean for one of them."""

import ipaddress
from collections.abc import Iterator
from typing import Any, NamedTuple

import libvirt
import msgspec
from oslo_config import cfg
from oslo_utils import units

from minova.certificates import encrypts_live_migrations
from minova.objects.servers.live_migration import LiveDestination, LiveMode

# A migration counts as at least so many GiB, as in Nova.
_LEAST_GB = 2.0


class LiveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`downtime_ms`, `steps`, `step_delay`: how the permitted downtime grows. `timeout`: seconds for each GiB; 0: none."""

    scheme: str = "tcp"
    with_tls: bool = False
    bandwidth: int = 0
    downtime_ms: int = 500
    steps: int = 10
    step_delay: int = 75
    timeout: int = 800
    force_at_timeout: bool = False
    post_copy: bool = False
    auto_converge: bool = False
    connections: int = 1
    stall: float = 60.0

    @classmethod
    def of(cls, conf: cfg.ConfigOpts) -> "LiveOptions":
        options, with_tls = conf.libvirt, encrypts_live_migrations(conf)
        return cls(
            scheme=options.live_migration_scheme or ("tls" if with_tls else "tcp"),
            with_tls=with_tls,
            bandwidth=options.live_migration_bandwidth,
            downtime_ms=options.live_migration_downtime,
            steps=options.live_migration_downtime_steps,
            step_delay=options.live_migration_downtime_delay,
            timeout=options.live_migration_completion_timeout,
            force_at_timeout=options.live_migration_timeout_action == "force_complete",
            post_copy=options.live_migration_permit_post_copy,
            auto_converge=options.live_migration_permit_auto_converge,
            connections=options.live_migration_parallel_connections,
            stall=float(options.live_migration_post_copy_stall),
        )

    def may_post_copy(self, destination: LiveDestination) -> bool:
        """libvirt refuses post-copy for a guest that arrives paused."""
        return self.post_copy and not destination.pauses and self.connections == 1

    def flags(self, destination: LiveDestination) -> int:
        """The source keeps its domain: the row's host decides when it goes."""
        block = destination.mode is LiveMode.BLOCK
        chosen = {
            libvirt.VIR_MIGRATE_LIVE: True,
            libvirt.VIR_MIGRATE_PEER2PEER: True,
            libvirt.VIR_MIGRATE_PERSIST_DEST: True,
            libvirt.VIR_MIGRATE_NON_SHARED_INC: block and bool(destination.copied),
            libvirt.VIR_MIGRATE_PAUSED: destination.pauses,
            # libvirt believes only in file systems that it knows as shared. The owner record has proved that this one is, and QEMU
            # drops its cache at the switch.
            libvirt.VIR_MIGRATE_UNSAFE: not block,
            libvirt.VIR_MIGRATE_POSTCOPY: self.may_post_copy(destination),
            libvirt.VIR_MIGRATE_AUTO_CONVERGE: self.auto_converge and not self.may_post_copy(destination),
            libvirt.VIR_MIGRATE_PARALLEL: self.connections > 1,
            libvirt.VIR_MIGRATE_TLS: self.with_tls,
        }
        return sum(flag for flag, is_set in chosen.items() if is_set)

    def peer(self, destination: LiveDestination) -> str:
        """Returns the URI of the destination's libvirtd."""
        return uri_of_peer(self.scheme, destination.address)

    def parameters(self, destination: LiveDestination) -> dict[str, Any]:
        """Returns the typed parameters of `migrateToURI3`."""
        parameters: dict[str, Any] = {
            libvirt.VIR_MIGRATE_PARAM_URI: f"tcp://{_in_uri(destination.address)}",
            libvirt.VIR_MIGRATE_PARAM_DEST_XML: destination.xml,
            libvirt.VIR_MIGRATE_PARAM_PERSIST_XML: destination.persistent_xml,
        }
        if _is_address(destination.address):
            # Otherwise QEMU would listen on every address of the destination.
            parameters[libvirt.VIR_MIGRATE_PARAM_LISTEN_ADDRESS] = destination.address
        if destination.copied:
            parameters[libvirt.VIR_MIGRATE_PARAM_MIGRATE_DISKS] = list(destination.copied)
        if self.bandwidth:
            parameters[libvirt.VIR_MIGRATE_PARAM_BANDWIDTH] = self.bandwidth
        if self.connections > 1:
            parameters[libvirt.VIR_MIGRATE_PARAM_PARALLEL_CONNECTIONS] = self.connections
        if self.with_tls and destination.tls_name is not None:
            # Parallel connections over TLS fail without it.
            parameters[libvirt.VIR_MIGRATE_PARAM_TLS_DESTINATION] = destination.tls_name
        return parameters

    def timeout_of(self, size: int) -> float | None:
        """Returns the seconds that a migration of so many bytes may take; None: no limit."""
        return self.timeout * _gigabytes(size) if self.timeout else None

    def downtimes(self, size: int) -> "Iterator[Downtime]":
        """Yields the permitted downtimes, growing exponentially as in Nova."""
        delay = int(self.step_delay * _gigabytes(size))
        offset = self.downtime_ms / (self.steps + 1)
        base = (self.downtime_ms - offset) ** (1 / self.steps)
        for step in range(self.steps + 1):
            yield Downtime(after=delay * step, milliseconds=int(offset + base**step))


class Downtime(NamedTuple):
    """`after`: seconds since the start."""

    after: float
    milliseconds: int


def uri_of_peer(scheme: str, address: str) -> str:
    return f"qemu+{scheme}://{_in_uri(address)}/system"


def _gigabytes(size: int) -> float:
    return max(_LEAST_GB, size / units.Gi)


def _is_address(address: str) -> bool:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True


def _in_uri(address: str) -> str:
    return f"[{address}]" if ":" in address else address
