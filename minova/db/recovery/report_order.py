"""The order of a host's reports about its guests: a report that arrives late or twice changes nothing.

Each compute process numbers its reports. The row of its service has the process and the number of the last report that
was written.
"""

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from minova import errors
from minova.db.models import Service

COMPUTE = "minova-compute"


def is_next(session: Session, host: str, process: str | None, number: int) -> bool:
    """Whether no later report of this process was written. The row of the service stays locked, so that the reports of a
    host are written one after the other.

    `process` None or `number` 0: the report has no order, and may be written.

    Raises Superseded if another process serves the host.
    """
    columns = (Service.id, Service.process, Service.report_process, Service.report_number)
    query = select(*columns).where(Service.host == host, Service.binary == COMPUTE).with_for_update()
    row = session.execute(query).one_or_none()
    if row is None or process is None:
        return True
    if row.process not in (None, process):
        raise errors.Superseded(f"Another minova-compute serves host {host} now")
    if not number:
        return True
    if row.report_process == process and number <= (row.report_number or 0):
        return False
    values = {"report_process": process, "report_number": number}
    session.connection().execute(update(Service).where(Service.id == row.id).values(**values))
    return True
