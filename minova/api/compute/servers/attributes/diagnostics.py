"""`GET /servers/{id}/diagnostics`: figures that the host reports now.

Until 2.47 they have libvirt's names; from 2.48 on all drivers have one format.
"""

import logging
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
from oslo_utils import units

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers import servers
from minova.api.compute.servers.consoles import from_host
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.microversions import History, changed
from minova.db.api_queries import services as read_services
from minova.db.api_queries.instances import InstanceRow
from minova.objects.guests.diagnostics import GuestDiagnostics, NicUse

LOG = logging.getLogger(__name__)
POLICY = "os_compute_api:os-server-diagnostics"


class CpuDiagnostics(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    time: int
    utilisation: int | None = None


class DiskDiagnostics(msgspec.Struct, frozen=True, kw_only=True):
    read_bytes: int | None
    read_requests: int | None
    write_bytes: int | None
    write_requests: int | None
    errors_count: int | None


class NicDiagnostics(msgspec.Struct, frozen=True, kw_only=True):
    mac_address: str
    rx_octets: int | None
    rx_errors: int | None
    rx_drop: int | None
    rx_packets: int | None
    rx_rate: int | None = None
    tx_octets: int | None
    tx_errors: int | None
    tx_drop: int | None
    tx_packets: int | None
    tx_rate: int | None = None


class MemoryDiagnostics(msgspec.Struct, frozen=True, kw_only=True):
    """In MiB."""

    maximum: int
    used: int


class DiagnosticsView(msgspec.Struct, frozen=True, kw_only=True):
    """`uptime` in seconds since the server was launched."""

    state: str
    driver: str
    hypervisor: str | None
    hypervisor_os: str | None
    uptime: int | None
    config_drive: bool
    memory_details: MemoryDiagnostics
    cpu_details: tuple[CpuDiagnostics, ...]
    nic_details: tuple[NicDiagnostics, ...]
    disk_details: tuple[DiskDiagnostics, ...]
    num_cpus: int
    num_nics: int
    num_disks: int


ANSWER_HISTORY = History(
    None,
    changed("2.48", "all fields", note="one shape for all drivers; before, what libvirt counts"),
    title="diagnostics of servers",
)


def show(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Raises Conflict if the server has no host, its host is down, or its guest does not run."""
    with api.db.read() as session:
        row = servers.find(call, session)
        services = read_services.services(session, api.conf.service_down_time, api.db)
    if row.host is None:
        raise errors.Conflict(f"Instance {row.uuid} is not ready")
    if not any(each.host == row.host and services.is_up(each) for each in services.rows if each.topic == "compute"):
        raise errors.Conflict(
            f"Cannot 'get_diagnostics' instance {row.uuid}: the compute service of its host is unavailable at this time"
        )
    ask = partial(api.compute(row.host).get_diagnostics, call.ctx, instance_uuid=row.uuid)
    counted: GuestDiagnostics = from_host(call, row, "diagnostics", ask)
    if not call.since("2.48"):
        return _in_words_of_libvirt(counted)
    answer: dict[str, Any] = msgspec.to_builtins(_view(counted, row))
    return answer


def _view(counted: GuestDiagnostics, row: InstanceRow) -> DiagnosticsView:
    return DiagnosticsView(
        state="running",
        driver=counted.driver,
        hypervisor=counted.hypervisor,
        hypervisor_os="linux",
        uptime=_seconds_since(row.launched_at),
        config_drive=bool(row.config_drive),
        memory_details=MemoryDiagnostics(maximum=counted.memory_kb // units.Ki, used=counted.used_kb // units.Ki),
        cpu_details=tuple(CpuDiagnostics(id=cpu.id, time=cpu.time) for cpu in counted.cpus),
        nic_details=tuple(_nic(nic) for nic in counted.nics),
        disk_details=tuple(
            DiskDiagnostics(
                read_bytes=disk.read_bytes,
                read_requests=disk.read_requests,
                write_bytes=disk.write_bytes,
                write_requests=disk.write_requests,
                errors_count=disk.errors,
            )
            for disk in counted.disks
        ),
        num_cpus=len(counted.cpus),
        num_nics=len(counted.nics),
        num_disks=len(counted.disks),
    )


def _nic(nic: NicUse) -> NicDiagnostics:
    values: dict[str, Any] = msgspec.structs.asdict(nic)
    del values["device"]
    return NicDiagnostics(**values)


def _in_words_of_libvirt(counted: GuestDiagnostics) -> dict[str, int]:
    """Returns the figures with the names of Nova's libvirt driver: cpu0_time, vda_read, tap0_rx, memory-rss."""
    words: dict[str, int | None] = {f"cpu{cpu.id}_time": cpu.time for cpu in counted.cpus}
    for disk in counted.disks:
        values = (disk.read_requests, disk.read_bytes, disk.write_requests, disk.write_bytes, disk.errors)
        names = ("read_req", "read", "write_req", "write", "errors")
        words |= {f"{disk.device}_{name}": value for name, value in zip(names, values, strict=True)}
    for nic in counted.nics:
        received = {
            "rx": nic.rx_octets,
            "rx_packets": nic.rx_packets,
            "rx_errors": nic.rx_errors,
            "rx_drop": nic.rx_drop,
        }
        counters = {
            "tx": nic.tx_octets,
            "tx_packets": nic.tx_packets,
            "tx_errors": nic.tx_errors,
            "tx_drop": nic.tx_drop,
        }
        words |= {f"{nic.device}_{name}": value for name, value in (received | counters).items()}
    words["memory"] = counted.memory_kb
    words |= {f"memory-{name}": value for name, value in counted.memory_stats.items()}
    return {name: value for name, value in words.items() if value is not None}


def _seconds_since(time: datetime | None) -> int | None:
    if time is None:
        return None
    return max(0, int((datetime.now(UTC).replace(tzinfo=None) - time).total_seconds()))


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.1/servers/{server_id}/diagnostics",
        rule=POLICY,
        handler=show,
    ),
)
