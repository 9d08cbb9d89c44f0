"""Values of a live migration: what the two hosts tell each other, its progress, and what each of them has of the guest."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from minova.objects.hosts.bounds import Count, Document, Line, Name, Serial, Time
from minova.objects.servers.disk_export import DiskExport, HostName


class LiveMode(StrEnum):
    """BLOCK: the disks are copied, and the guest arrives paused. SHARED: both hosts have the same disks."""

    BLOCK = "block"
    SHARED = "shared"


class LiveSource(msgspec.Struct, frozen=True, kw_only=True):
    """A running guest, as its host describes it to the destination.

    - `xml`, `inactive_xml`: the domain as it runs, and as it would be started again.
    - `cpu_xml`: its CPU as the guest sees it; None: the default of QEMU.
    - `sizes`: virtual sizes of its disks in bytes, by their names in the guest.
    - `export`: the files that libvirt does not copy, such as the config drive.
    - `with_tls`: whether its QEMU speaks TLS; None: of an earlier version, which does not say.
    """

    xml: Document
    inactive_xml: Document
    cpu_xml: Document | None
    sizes: Annotated[dict[Line, Serial], Meta(max_length=256)]
    export: DiskExport
    with_tls: bool | None = None


class LiveDestination(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a destination that has prepared for the guest.

    - `uri`: for sources of an earlier version. A source makes its own from the address: a URI of libvirt can run a program.
    - `address`: of the destination's libvirtd, to which the source's connects, and of its QEMU, which gets memory and disks.
    - `tls_name`: the name in the destination's certificate; None: without TLS between the QEMUs.
    - `xml`, `persistent_xml`: the guest as it runs there, and as it is started there later.
    - `copied`: names of the disks, in the guest, that are copied.
    - `unlocked`: the disks are shared, but the destination does not see the locks that the source's QEMU holds on them. No lock keeps two
      QEMUs from writing them, so the guest arrives paused.
    """

    mode: LiveMode
    uri: Name
    address: HostName
    tls_name: HostName | None
    xml: Document
    persistent_xml: Document
    copied: Annotated[tuple[Line, ...], Meta(max_length=256)] = ()
    unlocked: bool = False

    @property
    def pauses(self) -> bool:
        """Whether the guest arrives paused, and goes on once its row has the destination."""
        return self.mode is LiveMode.BLOCK or self.unlocked


class LivePhase(StrEnum):
    PREPARING = "preparing"
    DISKS = "disks"
    MEMORY = "memory"
    POST_COPY = "post-copy"


class LiveProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes in bytes, speeds in bytes per second. `downtime_ms`: expected, then actual; None: not known yet."""

    phase: LivePhase = LivePhase.PREPARING
    memory_total: Serial = 0
    memory_processed: Serial = 0
    memory_remaining: Serial = 0
    disk_total: Serial = 0
    disk_processed: Serial = 0
    disk_remaining: Serial = 0
    speed: Serial = 0
    seconds: Time = 0.0
    downtime_ms: Count | None = None


class LiveOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The guest has left: its copy here is off. `arrives_paused`: the destination resumes it after the row has its
    host. `handing_over`: its copy here stands still and writes nothing, but is not off yet. It has left if the destination has it
    whole.
    """

    arrives_paused: bool
    seconds: float
    downtime_ms: int | None = None
    post_copy: bool = False
    handing_over: bool = False


class GuestSide(StrEnum):
    """What one host has of a moving guest. PAUSED_BY_MIGRATION: the source has handed it over and does not know whether
    it has arrived. LEFT: off, because it has arrived elsewhere.
    """

    ABSENT = "absent"
    RUNNING = "running"
    PAUSED = "paused"
    PAUSED_BY_MIGRATION = "paused by migration"
    SHUT_OFF = "shut off"
    LEFT = "left"
    CRASHED = "crashed"
    POST_COPY = "post-copy"
    POST_COPY_FAILED = "post-copy failed"


class GuestReport(msgspec.Struct, frozen=True, kw_only=True):
    """`attempt`: of the domain. `moving`: libvirt still works on a migration of it, so that the side may change."""

    side: GuestSide
    attempt: Count | None = None
    moving: bool = False
