"""With `enable_new_services = false` a new compute gets no servers until an administrator enables it."""

import pytest
from sqlalchemy import select

from minova.db.models import Service
from tests.functional.conductor.conductor_harness import ConductorHarness


def disabled(harness: ConductorHarness) -> dict[str, tuple[bool, str | None]]:
    with harness.db.read() as session:
        query = select(Service.host, Service.disabled, Service.disabled_reason)
        return {row.host: (row.disabled, row.disabled_reason) for row in session.execute(query)}


@pytest.mark.parametrize("enabled", [True, False])
def test_a_new_compute_is_disabled_if_the_option_says_so(harness: ConductorHarness, enabled: bool) -> None:
    """A compute that is known stays as it is, and conductors are never disabled."""
    harness.options["enable_new_services"] = enabled
    conductor = harness.start("two")
    for host in ("a", "new"):
        harness.register(host, conductor)
    new = (False, None) if enabled else (True, "New compute service disabled due to config option.")
    assert disabled(harness) == dict.fromkeys(["a", "b", "c", "one", "two"], (False, None)) | {"new": new}
