"""Times: as requests give them, and in the two forms that OpenStack's answers have."""

from datetime import UTC, datetime

from minova import errors


def parse(text: str) -> datetime:
    """An ISO 8601 time as UTC without a zone, which is how the database keeps times. Raises BadRequest.

    A time next to an end of the calendar may have no UTC: `0001-01-01T00:00:00+01:00`.
    """
    try:
        # A query string holds a space where the client did not escape the plus sign.
        at = datetime.fromisoformat(text.replace(" ", "+"))
        return at if at.tzinfo is None else at.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise errors.BadRequest(f"Invalid time '{text[:64]}': it must look like 2026-01-31T12:00:00Z.") from None


def seconds(at: datetime) -> str:
    """`2026-01-31T12:00:00Z`; times without a zone are UTC."""
    return _utc(at).strftime("%Y-%m-%dT%H:%M:%SZ")


def microseconds(at: datetime | None) -> str | None:
    """`2026-01-31T12:00:00.000000`, as Nova writes the times that it added later."""
    return None if at is None else _utc(at).strftime("%Y-%m-%dT%H:%M:%S.%f")


def _utc(at: datetime) -> datetime:
    return at if at.tzinfo is None else at.astimezone(UTC)
