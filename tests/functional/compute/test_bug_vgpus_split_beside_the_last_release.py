"""Cards get providers of their own when no service of the last release runs any more: its schedulers would not find their
virtual GPUs, and its conductors would offer them at the node again.
"""

from pathlib import Path

import pytest

from minova.contracts.conductor import ConductorApi
from minova.contracts.scheduler import SchedulerApi
from tests.functional.compute.test_bug_vgpus_of_all_cards_in_one_inventory import ONE, TWO, Cloud

NEW = {"conductor": ConductorApi.VERSION, "scheduler": SchedulerApi.VERSION}


@pytest.mark.parametrize("older", [{"conductor": "1.5"}, {"scheduler": "1.1"}])
def test_cards_stay_together_while_a_service_of_the_last_release_runs(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, older: dict[str, str]
) -> None:
    monkeypatch.setattr(Cloud.machine, "cards", {})
    monkeypatch.setattr(Cloud.machine, "vgpus", 4)
    cloud = Cloud(tmp_path / "world", tables)
    try:
        levels = NEW | older
        cloud.conductor.collaborators.compute_nodes._levels = lambda: levels
        cloud.cards(cards={ONE: 2, TWO: 2}, vgpus=0)
        assert cloud.inventories() == {"a": (4, 0)}
        (uuid,) = cloud.create(1)
        assert cloud.held(uuid) == {"a": 1}
        levels = NEW
        cloud.audit()
        assert sorted(cloud.inventories().items()) == [(f"a_{ONE}", (2, 1)), (f"a_{TWO}", (2, 0))]
        levels = NEW | older
        cloud.audit()
        assert sorted(cloud.inventories().items()) == [(f"a_{ONE}", (2, 1)), (f"a_{TWO}", (2, 0))]
    finally:
        cloud.close()
