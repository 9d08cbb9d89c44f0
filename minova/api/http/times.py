"""Times in the two forms that OpenStack's answers have."""

from datetime import UTC, datetime


def seconds(at: datetime) -> str:
    """`2026-01-31T12:00:00Z`; times without a zone are UTC."""
    return _utc(at).strftime("%Y-%m-%dT%H:%M:%SZ")


def microseconds(at: datetime | None) -> str | None:
    """`2026-01-31T12:00:00.000000`, as Nova writes the times that it added later."""
    return None if at is None else _utc(at).strftime("%Y-%m-%dT%H:%M:%S.%f")


def _utc(at: datetime) -> datetime:
    return at if at.tzinfo is None else at.astimezone(UTC)
