"""Any spelling of a UUID is accepted, and stored in one."""

import pytest

from minova.uuids import canonical_uuid, is_uuid

UUID = "6f1c0f52-7d1a-4a53-8a0c-3f54ab1f6f11"


@pytest.mark.parametrize("spelled", [UUID, UUID.upper(), UUID.replace("-", ""), f"{{{UUID}}}", f"urn:uuid:{UUID}"])
def test_all_spellings_are_one_uuid(spelled: str) -> None:
    assert (canonical_uuid(spelled), is_uuid(spelled)) == (UUID, True)


@pytest.mark.parametrize("value", ["", "web", UUID[:-1], None, 7, [UUID]])
def test_other_values_are_none(value: object) -> None:
    assert (canonical_uuid(value), is_uuid(value)) == (None, False)
