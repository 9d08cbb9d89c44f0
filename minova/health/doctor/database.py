"""The schema, the identity and the clocks of the database."""

import time
from collections.abc import Iterator

from oslo_config import cfg
from sqlalchemy import select

from minova import errors
from minova.db import schema
from minova.db.engine import Database
from minova.db.models.clock import ROW, Clock
from minova.db.recovery import cloud
from minova.health.doctor.findings import Finding, Patient

AREA = "database"
# Seconds by which clocks of machines may differ, and without an advance of the cloud clock.
CLOCKS_DIFFER, CLOCK_STANDS = 5.0, 30.0


def check_schema(conf: cfg.ConfigOpts, db: Database) -> Iterator[Finding]:
    """Without findings the tables can be read."""
    place = conf.database.connection.rpartition("@")[2]
    if db.missing_file is not None:
        # In a cloud that runs, its mend is not `db upgrade`: that would make an empty file, in which the doctor finds no fault.
        yield Finding(
            area=AREA,
            subject=str(db.missing_file),
            problem="is not there",
            detail="no service has made this file",
            mend=f"in a new cloud {schema.COMMAND}; else correct [database] connection, or run minova-manage with the --state-dir of minova-standalone",
        )
        return
    try:
        schema.require_schema(db)
    except errors.SchemaMismatch as error:
        yield Finding(
            area=AREA, subject="the schema", problem="does not fit", detail=str(error), mend="minova-manage db upgrade"
        )
    except errors.MinovaError as error:
        yield Finding(
            area=AREA,
            subject=place,
            problem="does not answer",
            detail=errors.explained(error),
            mend="start the database, or correct [database] connection",
        )


def check(patient: Patient) -> Iterator[Finding]:
    record = cloud.record(patient.session, patient.db.now())
    if record is None:
        yield Finding(
            area=AREA,
            subject="the cloud",
            problem="has no identity",
            detail="a dump is being imported, or its tables are empty",
            mend="finish the import (docs/operators/backup.md)",
        )
    elif record.safe_since is not None:
        yield Finding(
            area=AREA,
            subject="the cloud",
            problem="is in safe mode",
            detail=record.safe_reason or "",
            mend="minova-manage recovery",
        )
    yield from _clocks(patient)


def _clocks(patient: Patient) -> Iterator[Finding]:
    before = patient.now - time.time()
    wall, advanced = patient.session.execute(select(patient.db.wall(), Clock.wall).where(Clock.id == ROW)).one()
    own = time.time() + before
    if abs(wall - own) > CLOCKS_DIFFER:
        yield Finding(
            area="clocks",
            subject="the clock of this machine",
            problem="differs from that of the database server",
            detail=f"by {abs(wall - own):.0f} s",
            mend="systemctl restart systemd-timesyncd, on the machine whose clock is wrong",
        )
    if wall - advanced > CLOCK_STANDS:
        yield Finding(
            area="clocks",
            subject="the cloud clock",
            problem="stands still",
            detail=f"no conductor has advanced it for {wall - advanced:.0f} s: no task goes on, and no service is missed",
            mend=f"systemctl start {patient.unit('minova-conductor')}",
        )
