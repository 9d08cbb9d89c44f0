"""`minova-manage doctor`: reads everything, and says what is wrong and which command mends it. It changes nothing."""

import time
from collections.abc import Callable, Iterator

import msgspec
from oslo_config import cfg

from minova.cmd.commands import config_check
from minova.cmd.startup import database, gauges
from minova.cmd.startup.standalone_folder import is_standalone
from minova.db.engine import Database
from minova.health.doctor import broker, guest_secrets, guests, images, machine, networks, services, space, tasks
from minova.health.doctor import database as of_database
from minova.health.doctor.findings import Finding, Patient, exit_code, in_both, text_of
from minova.health.doctor.service_files import ServiceFiles
from minova.messaging import broker_connection

# Seconds between the two readings of the rows.
BETWEEN = 1.0
CHECKS: tuple[Callable[[Patient], Iterator[Finding]], ...] = (
    of_database.check,
    services.check,
    tasks.check,
    guests.check,
    guests.check_allocations,
    guest_secrets.check,
    networks.check,
    images.check,
    space.check,
)


def run(conf: cfg.ConfigOpts) -> int:
    """Prints the findings. Returns the exit code: 0 for none, 1 for warnings alone, 2 for errors."""
    db = database.opened(conf, readonly=True)
    try:
        findings = examine(conf, db)
    finally:
        db.close()
    if conf.command.json:
        print(msgspec.json.format(msgspec.json.encode(findings), indent=2).decode())
    elif findings:
        print(text_of(findings))
    return exit_code(findings)


def examine(conf: cfg.ConfigOpts, db: Database) -> list[Finding]:
    services = ServiceFiles(conf, list(config_check.options_of_libraries()))
    findings = list(of_database.check_schema(conf, db))
    if not findings:
        findings = _rows(services, db)
        queues = list(gauges.queue_names(db, float(conf.service_down_time)))
        findings += broker.check(_with_broker(services), queues)
    return [*findings, *machine.check(services, config_check.findings(services.files()), time.time())]


def _with_broker(services: ServiceFiles) -> cfg.ConfigOpts:
    """Returns the configuration of minova-manage, or that of a conductor whose own file alone names the broker."""
    candidates = [services.of("minova-manage"), services.of("minova-conductor")]
    return next(filter(broker_connection.is_configured, candidates), candidates[0])


def _rows(services: ServiceFiles, db: Database) -> list[Finding]:
    first = _read(services, db)
    if not first:
        return []
    time.sleep(BETWEEN)
    return in_both(first, _read(services, db))


def _read(services: ServiceFiles, db: Database) -> list[Finding]:
    with db.read() as session:
        patient = Patient(
            conf_of=services.of,
            db=db,
            session=session,
            now=time.time(),
            is_standalone=is_standalone(_with_broker(services)),
        )
        return [finding for check in CHECKS for finding in check(patient)]
