"""Names that are no UUID stand for one."""

import uuid

NAMES = uuid.UUID("6f1c0f52-7d1a-4a53-8a0c-3f54ab1f6f11")


def uuid_of(name):
    try:
        uuid.UUID(name)
    except ValueError:
        return str(uuid.uuid5(NAMES, name))
    return name
