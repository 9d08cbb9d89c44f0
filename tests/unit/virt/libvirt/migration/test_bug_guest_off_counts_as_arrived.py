"""A migration that a new process joins has no answer of libvirt: only a guest that libvirt calls migrated has left."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import libvirt
import pytest

from minova.errors import HypervisorError
from minova.objects.servers.live_migration import LiveDestination, LiveMode
from minova.virt.libvirt.migration import live_run
from minova.virt.libvirt.migration.live_options import LiveOptions
from minova.virt.libvirt.migration.live_run import LiveRun

UUID = "5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11"
DESTINATION = LiveDestination(
    mode=LiveMode.BLOCK, uri="", address="", tls_name=None, xml="", persistent_xml="", copied=("vda",)
)


class Migrating:
    """Connection, domain and host in one. The migration ends at the second look, and the guest is off with `reason`."""

    def __init__(self, reason: int) -> None:
        self._reason, self._looks = reason, 2

    @contextmanager
    def connection(self, *_: object) -> Iterator["Migrating"]:
        yield self

    def lookupByUUIDString(self, _: str) -> "Migrating":  # noqa: N802  - libvirt's name
        return self

    def isActive(self) -> bool:  # noqa: N802
        self._looks -= 1
        return self._looks >= 0

    def state(self) -> tuple[int, int]:
        if self._looks >= 0:
            return libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_BOOTED
        return libvirt.VIR_DOMAIN_SHUTOFF, self._reason

    def jobInfo(self) -> list[int]:  # noqa: N802
        return [libvirt.VIR_DOMAIN_JOB_UNBOUNDED]

    def jobStats(self, _: int = 0) -> dict[str, Any]:  # noqa: N802
        return {"operation": libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT}

    def migrateSetMaxDowntime(self, milliseconds: int) -> None:  # noqa: N802
        """No time is kept here."""


def joined(reason: int) -> LiveRun:
    host: Any = Migrating(reason)
    return LiveRun(host, LiveOptions(timeout=0), UUID, DESTINATION, size=1 << 30, stays_paused=False)


@pytest.mark.parametrize(
    "reason",
    [libvirt.VIR_DOMAIN_SHUTOFF_SHUTDOWN, libvirt.VIR_DOMAIN_SHUTOFF_DESTROYED, libvirt.VIR_DOMAIN_SHUTOFF_UNKNOWN],
)
def test_a_guest_that_went_off_has_not_left(reason: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_run, "POLL", 0.0)
    with pytest.raises(HypervisorError, match="has not left: shut off"):
        joined(reason).run(lambda seen: None)


def test_a_guest_that_has_migrated_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_run, "POLL", 0.0)
    assert joined(libvirt.VIR_DOMAIN_SHUTOFF_MIGRATED).run(lambda seen: None).arrives_paused
