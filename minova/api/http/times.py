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


def now() -> datetime:
    """As the database keeps times: UTC, without a zone."""
    return datetime.now(UTC).replace(tzinfo=None)


def with_form(text: str, *forms: str) -> datetime | None:
    """A time in the first of the forms that it has, as the database keeps times; None if it has none of them."""
    for form in forms:
        try:
            return datetime.strptime(f"{text} +0000", f"{form} %z").replace(tzinfo=None)
        except ValueError:
            continue
    return None


def span(since: str | None, before: str | None) -> tuple[datetime | None, datetime | None]:
    """Of `changes-since` and `changes-before`. Raises BadRequest for what is no time, and for an end before the beginning."""
    begin, end = (None if text is None else parse(text) for text in (since, before))
    if begin is not None and end is not None and end < begin:
        raise errors.BadRequest("The value of changes-since must be less than or equal to changes-before.")
    return begin, end


def seconds(at: datetime) -> str:
    """`2026-01-31T12:00:00Z`; times without a zone are UTC."""
    return f"{_plain(at).isoformat(timespec='seconds')}Z"


def microseconds(at: datetime | None) -> str | None:
    """`2026-01-31T12:00:00.000000`, as Nova writes the times that it added later."""
    return None if at is None else _plain(at).isoformat(timespec="microseconds")


def _plain(at: datetime) -> datetime:
    """UTC, without a zone. Times are written by `isoformat`, which takes a tenth of the time of `strftime`."""
    return at if at.tzinfo is None else at.astimezone(UTC).replace(tzinfo=None)
