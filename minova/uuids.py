"""UUIDs in requests and arguments, in any spelling that `uuid.UUID` reads."""

from uuid import UUID


def canonical_uuid(value: object) -> str | None:
    """Returns the stored form, such as 6f1c0f52-7d1a-4a53-8a0c-3f54ab1f6f11; None if the value is no UUID."""
    try:
        return str(UUID(value)) if isinstance(value, str) else None
    except ValueError:
        return None


def is_canonical_uuid(text: str) -> bool:
    """Returns whether the text is a UUID in its stored form."""
    return canonical_uuid(text) == text


def is_uuid(value: object) -> bool:
    return canonical_uuid(value) is not None
