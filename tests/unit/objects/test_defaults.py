"""What a field means that a message or a row of an earlier release does not have.

Another default changes the meaning of what earlier releases have sent and written. So each is in defaults.txt, and a new value there
is a decision.
"""

from enum import Enum
from pathlib import Path

import msgspec

from tests.unit.objects.test_wire import structs

FILE = Path(__file__).with_name("defaults.txt")


def test_no_default_changes_unnoticed() -> None:
    defaults = {
        f"{struct.__module__.removeprefix('minova.')}.{struct.__name__}.{field.name} = {field.default!r}"
        for struct in structs()
        for field in msgspec.structs.fields(struct)
        if isinstance(field.default, bool | int | float) and not isinstance(field.default, Enum)
    }
    assert sorted(defaults) == FILE.read_text().splitlines()
