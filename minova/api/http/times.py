"""Times: those in requests, and the two formats of OpenStack's answers."""

from datetime import UTC, datetime

from minova import errors


def parse(text: str) -> datetime:
    """Parses an ISO 8601 time into UTC without a zone, which is the form of times in the database.

    Raises BadRequest if the text is not a time. A time next to an end of the calendar may have no UTC:
    `0001-01-01T00:00:00+01:00`.
    """
    try:
        # A plus sign that the client did not escape arrives as a space in a query string.
        at = datetime.fromisoformat(text.replace(" ", "+"))
        return at if at.tzinfo is None else at.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise errors.BadRequest(f"Invalid time '{text[:64]}': it must look like 2026-01-31T12:00:00Z.") from None


def now() -> datetime:
    """Returns the time as in the database: in UTC, without a zone."""
    return datetime.now(UTC).replace(tzinfo=None)


def with_form(text: str, *forms: str) -> datetime | None:
    """Parses a time by the first of the forms that matches, into the form of the database. Returns None if no form
    matches.
    """
    for form in forms:
        try:
            return datetime.strptime(f"{text} +0000", f"{form} %z").replace(tzinfo=None)
        except ValueError:
            continue
    return None


def span(since: str | None, before: str | None) -> tuple[datetime | None, datetime | None]:
    """Parses `changes-since` and `changes-before`. Raises BadRequest if a text is not a time, or the end is before the
    beginning.
    """
    begin, end = (None if text is None else parse(text) for text in (since, before))
    if begin is not None and end is not None and end < begin:
        raise errors.BadRequest("The value of changes-since must be less than or equal to changes-before.")
    return begin, end


def seconds(at: datetime) -> str:
    """Formats a time as `2026-01-31T12:00:00Z`. Times without a zone are in UTC."""
    return f"{_without_zone(at).isoformat(timespec='seconds')}Z"


def microseconds(at: datetime | None) -> str | None:
    """Formats a time as `2026-01-31T12:00:00.000000`, the format of fields that Nova added later."""
    return None if at is None else _without_zone(at).isoformat(timespec="microseconds")


def _without_zone(at: datetime) -> datetime:
    """Converts to UTC without a zone. `isoformat` then takes a tenth of the time of `strftime`."""
    return at if at.tzinfo is None else at.astimezone(UTC).replace(tzinfo=None)
