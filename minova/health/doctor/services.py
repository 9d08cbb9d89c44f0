"""Services: life, releases, reports, and audits of nodes."""

from collections.abc import Iterator
from datetime import UTC, datetime

from sqlalchemy import select

from minova.db.api_queries.services import ServiceRow, services
from minova.db.models import ComputeNode, NodeAudit
from minova.health.doctor.findings import Finding, Patient, Severity
from minova.health.readings import ServiceReading, service_readings
from minova.objects.hosts.service import SERVICE_VERSION, STOPPED

AREA = "services"
NEEDED = ("minova-conductor", "minova-scheduler", "minova-compute")
# Seconds after which an audit is missed: the conductor may stretch the interval of 60 s.
AUDIT_MISSED = 1800.0


def check(patient: Patient) -> Iterator[Finding]:
    down_time = float(patient.conf("minova-conductor").service_down_time)
    rows = services(patient.session, down_time, patient.db).rows
    readings = {
        (service.host, service.binary): service for service in service_readings(patient.session, patient.db, down_time)
    }
    read_twice = [(row, readings[row.host, row.binary]) for row in rows if (row.host, row.binary) in readings]
    for row, reading in read_twice:
        yield from _of_service(row, reading, patient.unit(row.binary))
    running = {row.binary for row, reading in read_twice if _runs(row, reading, down_time)}
    for binary in NEEDED:
        if binary not in running:
            yield Finding(
                area=AREA,
                subject=binary,
                problem="runs on no host",
                mend=f"systemctl start {patient.unit(binary)}, on its host",
            )
    yield from _audits(patient, {service.host for service in readings.values() if service.state == "up"})


def _runs(row: ServiceRow, reading: ServiceReading, down_time: float) -> bool:
    """Whether it reports. One that may get no work, because it was forced down or its hypervisor does not answer, runs."""
    reports = reading.age is not None and reading.age <= down_time and row.down_reason != STOPPED
    return reports or reading.state == "in_doubt"


def _of_service(row: ServiceRow, reading: ServiceReading, unit: str) -> Iterator[Finding]:
    name = f"{row.binary} on {row.host}"
    if row.forced_down:
        yield Finding(
            area=AREA,
            subject=name,
            problem="was forced down",
            mend=f"minova service set {row.host} {row.binary} --up, once the host is repaired",
            severity=Severity.WARNING,
        )
    elif row.down_reason == STOPPED:
        yield Finding(
            area=AREA, subject=name, problem="has been stopped", mend=f"on {row.host}: systemctl start {unit}"
        )
    elif row.down_reason is not None:
        yield Finding(
            area=AREA,
            subject=name,
            problem="reports that it cannot work",
            detail=row.down_reason,
            mend=f"on {row.host}: repair it; {row.binary} then goes on by itself",
        )
    elif reading.state != "up":
        silence = "it has never reported" if reading.age is None else f"no report for {reading.age:.0f} s"
        advice = f"on {row.host}: systemctl status {unit}"
        in_doubt = reading.state == "in_doubt"
        yield Finding(
            area=AREA,
            subject=name,
            problem="is in doubt" if in_doubt else "is down",
            detail=silence,
            mend=f"first the broker, since many services are silent; then {advice}"
            if in_doubt
            else f"{advice}; a host that is gone: docs/operators/hosts.md",
        )
    if row.refused_report is not None:
        yield Finding(
            area=AREA,
            subject=name,
            problem="reports what is refused",
            detail=row.refused_report,
            mend=f"on {row.host}: journalctl -u {unit}",
        )
    if reading.state == "up" and row.version < SERVICE_VERSION:
        yield Finding(
            area="versions",
            subject=name,
            problem="runs an older release",
            detail=f"number {row.version}, and {SERVICE_VERSION} is installed here",
            mend=f"on {row.host}: upgrade minova (docs/operators/upgrade.md)",
            severity=Severity.WARNING,
        )


def _audits(patient: Patient, living: set[str]) -> Iterator[Finding]:
    if patient.conf("minova-compute").update_resources_interval < 0:
        return
    now = datetime.fromtimestamp(patient.now, UTC).replace(tzinfo=None)
    query = (
        select(ComputeNode.host, ComputeNode.hypervisor_hostname, ComputeNode.created_at, NodeAudit.audited_at)
        .outerjoin(NodeAudit, NodeAudit.node_id == ComputeNode.id)
        .order_by(ComputeNode.id)
    )
    for host, node, created_at, audited_at in patient.session.execute(query):
        age = (now - (audited_at or created_at)).total_seconds()
        if host in living and age > AUDIT_MISSED:
            yield Finding(
                area="audits",
                subject=f"the node {node} of {host}",
                problem="is not audited",
                detail=f"the last audit was {age:.0f} s ago",
                mend=f"minova hypervisor audit {node}; on {host}: journalctl -u {patient.unit('minova-compute')}",
            )
