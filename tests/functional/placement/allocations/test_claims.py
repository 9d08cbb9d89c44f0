from pathlib import Path

import pytest

from minova.db.engine import Database
from minova.placement.allocations.claims import Claim
from tests.functional.placement.candidate_cases import provider, put
from tests.functional.placement.cases import ClaimCases, claim, held
from tests.functional.placement.group_cases import GroupCases
from tests.functional.scheduler.cloud import fresh, named


@pytest.fixture
def db(tmp_path: Path) -> Database:
    return fresh(f"sqlite:///{tmp_path}/minova.sqlite")


class TestOnSqlite(ClaimCases, GroupCases):
    pass


def test_a_root_serves_a_claim_of_its_last_unit_before_its_children_do(db: Database) -> None:
    put(db, provider("root", inventories={"VGPU": 1}), provider("child", "root", inventories={"VGPU": 8}))
    for consumer in ("one", "two"):
        wanted = Claim(consumer_uuid=named(consumer), claim_number=1, provider_uuid="root", resources={"VGPU": 1})
        assert claim(db, wanted) == {}
    assert (held(db, "one"), held(db, "two")) == ({("root", "VGPU"): 1}, {("child", "VGPU"): 1})
