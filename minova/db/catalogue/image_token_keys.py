"""The keys that sign image tokens, and the clock by which tokens expire."""

import contextlib
import secrets

from sqlalchemy import Double, delete, insert, select, type_coerce
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minova.db.engine import Database
from minova.db.models import ImageTokenKey
from minova.image_tokens import Keys

_BYTES = 32


def read(db: Database) -> Keys:
    """Raises ServiceUnavailable if the database does not answer."""
    with db.read() as session:
        return _read(session, db)


def ensure(db: Database) -> Keys:
    """As `read`, but makes the key of this period if there is none, and removes keys that no valid token can need."""
    keys = read(db)
    if keys.period not in keys.secrets:
        with contextlib.suppress(IntegrityError):  # another conductor has made it in the meantime
            db.run(lambda session: _renew(session, keys.period))
        keys = read(db)
    return keys


def _read(session: Session, db: Database) -> Keys:
    now = session.scalar(select(type_coerce(db.wall(), Double())))
    rows = session.execute(select(ImageTokenKey.period, ImageTokenKey.secret)).all()
    return Keys(now=float(now or 0.0), secrets={row.period: row.secret for row in rows})


def _renew(session: Session, period: int) -> None:
    column = ImageTokenKey.period
    session.execute(delete(ImageTokenKey).where(~column.in_([period - 1, period, period + 1])))
    session.execute(insert(ImageTokenKey).values(period=period, secret=secrets.token_hex(_BYTES)))
