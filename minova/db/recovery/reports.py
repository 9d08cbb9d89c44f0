"""Whether what a host or an image store holds is known to the present history of the cloud."""

from sqlalchemy.orm import Session

from minova.db.recovery import cloud, unexpected
from minova.db.recovery.cloud import HOST, CloudRecord


def is_known(session: Session, row: CloudRecord, kind: str, name: str) -> bool:
    """Returns whether it has reported since its history ended, and nothing that it holds is missing in the database; or
    whether an operator has accepted what is missing. `kind`: HOST or STORE.
    """
    at = cloud.reported_at(session, kind).get(name)
    if row.safe_since is not None or row.history_since is None or at is None or at < row.history_since:
        return False
    if row.history_forced and name not in row.history_without:
        return True
    return unexpected.is_empty(session, name) if kind == HOST else not unexpected.images_in(session, name)
