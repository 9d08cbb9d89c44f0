"""That the harness can fail: in the storm not all is in order, and a cloud that is broken on purpose is caught."""

from pathlib import Path

import pytest

from minova.conductor.reconcile import Reconcile
from tests.faults.cloud import Cloud
from tests.faults.test_create_build_delete import STORM, STORMS, live


def test_in_the_storm_itself_the_invariants_are_broken(tmp_path: Path) -> None:
    cloud = Cloud(1, tmp_path, hosts=3)
    seen: set[str] = set()
    try:
        for moment in range(10, int(STORM), 10):
            cloud.world.later(30.0 + moment, None, lambda: seen.update(cloud.violations()))
        live(cloud, STORMS["all at once"], requests=12)
        assert cloud.violations() == []
    finally:
        cloud.world.close()
    for words in ("in transit", "task left", "allocation without instance", "domains", "vcpus_used"):
        assert any(words in violation for violation in seen), (words, sorted(seen))


def test_a_cloud_that_never_looks_after_its_tasks_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reconcile, "look_after_tasks", lambda self: None)
    found = []
    for seed in range(3):
        (tmp_path / str(seed)).mkdir()
        cloud = Cloud(seed, tmp_path / str(seed), hosts=3)
        try:
            live(cloud, STORMS["all at once"], requests=12)
            found += cloud.violations()
        finally:
            cloud.world.close()
    assert any("in transit" in violation for violation in found), found


def test_a_hypervisor_that_forgets_to_destroy_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = Cloud(2, tmp_path, hosts=2)
    for driver in cloud.drivers.values():
        monkeypatch.setattr(driver, "destroy", lambda uuid: None)
    try:
        live(cloud, STORMS["calm"], requests=8)
        assert any("domains" in violation for violation in cloud.violations())
    finally:
        cloud.world.close()
