"""That the harness can fail: in the storm not all is in order, and a cloud that is broken on purpose is caught, by each kind."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minova.compute import conductor_retry
from minova.compute.accounting.running_deleted import RunningDeleted
from minova.compute.host_identity import LocalIdentity
from minova.conductor.hosts import rename
from minova.conductor.reconcile import Reconcile
from minova.conductor.tasks import worker
from minova.db.servers import request_specs
from minova.virt.fake import FakeDriver
from tests.faults import cloud as clouds
from tests.faults.cloud import Cloud
from tests.faults.storms import STORM, STORMS, live, violations
from tests.faults.world import MortalDatabase

# Ten stories of half a minute each on a busy machine.
pytestmark = pytest.mark.timeout(600)
SEEDS = 10
# A second delivery, which may come when a dead process is back, makes good for a recovery that is broken on purpose.
NO_DOUBLES = 0.0

Patch = Callable[[pytest.MonkeyPatch], None]


def found_in(folder: Path, name: str, words: str, first_seed: int = 0, hosts: int = 3) -> list[str]:
    """What is wrong after storms of this name: with the first seed that shows a violation with these words, or with any seed."""
    storm, violations_found = STORMS[name], list[str]()
    for seed in range(first_seed, first_seed + SEEDS):
        (folder / str(seed)).mkdir()
        cloud = Cloud(seed, folder / str(seed), hosts=hosts, **storm.overrides)
        try:
            live(cloud, storm, requests=12, double=NO_DOUBLES)
            violations_found += violations(cloud, storm)
        finally:
            cloud.world.close()
        if any(words in violation for violation in violations_found):
            break
    return violations_found


@pytest.mark.nightly("a storm more; the words of the core are enough for each day")
def test_in_the_storm_itself_the_invariants_are_broken(tmp_path: Path) -> None:
    not_seen_yet = {"in transit", "task left", "allocation without instance", "domains", "vcpus_used"}
    for seed in range(4):
        (tmp_path / str(seed)).mkdir()
        cloud = Cloud(seed, tmp_path / str(seed), hosts=3)
        seen: set[str] = set()
        try:
            for moment in range(5, int(STORM), 3):
                cloud.world.later(30.0 + moment, None, lambda: seen.update(cloud.violations()))  # noqa: B023  - of this seed
            live(cloud, STORMS["all at once"], requests=12, double=NO_DOUBLES)
            assert cloud.violations() == []
        finally:
            cloud.world.close()
        not_seen_yet = {words for words in not_seen_yet if not any(words in violation for violation in seen)}
        if not not_seen_yet:
            return
    raise AssertionError(f"never seen: {sorted(not_seen_yet)}")


@pytest.mark.nightly("ten storms; that the harness can fail is shown each night")
def test_clocks_that_run_backwards_are_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one host: of several one is always heard again soon, and takes the servers of the others."""
    clocks_that_run_backwards(monkeypatch)
    violations_found = found_in(tmp_path, "clocks step", "is in error", first_seed=3, hosts=1)
    assert any("is in error" in violation for violation in violations_found), violations_found


@pytest.mark.nightly("a storm more; the words of the core are enough for each day")
def test_a_hypervisor_that_forgets_to_destroy_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeDriver, "destroy", lambda self, instance_uuid, row=None: None)
    violations_found = found_in(tmp_path, "calm", "domains")
    assert any("domains" in violation for violation in violations_found), violations_found


def no_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conductors do not look for tasks whose time has passed or whose owner is gone."""
    monkeypatch.setattr(Reconcile, "process_due_tasks", lambda self: None)


def no_retries_and_no_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the service that meets an outage tries again, nor does a conductor later on."""

    def call_once(what: str, ask: Callable[[], Any], **options: object) -> Any:
        return ask()

    monkeypatch.setattr(worker, "retry_call", call_once)
    monkeypatch.setattr(conductor_retry, "retry_call", call_once)
    no_recovery(monkeypatch)


def no_memory_of_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeated create is a new one."""
    monkeypatch.setattr(request_specs, "find_create_request", lambda session, request_uuid, project_id: None)
    monkeypatch.setattr(request_specs, "add_create_requests", lambda session, rows: None)


def no_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host is known by its name alone, and is started under another one without further ado."""
    monkeypatch.setattr(LocalIdentity, "of", None)
    monkeypatch.setattr(clouds, "LocalIdentity", lambda folder: _Nameless())
    monkeypatch.setattr(rename, "rename", lambda *arguments, **options: None)


def no_end_of_purged_guests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guests whose instances were purged run for ever."""
    monkeypatch.setattr(RunningDeleted, "asked_of_purged", lambda self, domain, known_for: None)


def clocks_that_run_backwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases and ages go by the database's wall clock."""
    monkeypatch.setattr(MortalDatabase, "now", lambda self: self.wall())


class _Nameless:
    """Stands in for an identity: the compute of the release before had none."""

    process = ""
    compute_id = None

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


# (storm, what is broken, words of the violation, first seed). The nightly run has all.
CORE = [("controllers die for good", no_recovery, "in transit", 0)]
REST = [
    ("hosts are renamed", no_identity, "vcpus_used", 0),
    ("all at once", no_recovery, "in transit", 0),
    ("the database is away for a second", no_retries_and_no_recovery, "in transit", 0),
    ("answers to commits are lost", no_memory_of_requests, "was asked for", 4),
    ("several hosts die together", no_recovery, "in transit", 0),
    ("a host comes back late", no_end_of_purged_guests, "domains", 0),
]


@pytest.mark.nightly("a storm for each row; that the harness can fail is shown each night")
@pytest.mark.parametrize(
    ("storm", "broken", "words", "first_seed"), CORE + REST if os.environ.get("MINOVA_TABLE") == "all" else CORE
)
def test_a_cloud_that_is_broken_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, storm: str, broken: Patch, words: str, first_seed: int
) -> None:
    broken(monkeypatch)
    violations_found = found_in(tmp_path, storm, words, first_seed)
    assert any(words in violation for violation in violations_found), violations_found
