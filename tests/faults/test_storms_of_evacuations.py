"""Hosts lose their power and are fenced, their servers are evacuated while they move, and the hosts come back: no guest runs twice at
any moment after its host was fenced, and in the end all books agree.
"""

from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import select

from minova import errors
from minova.db.models import Instance, Service
from minova.objects.requests.evacuation import EvacuationRequest
from minova.objects.servers.states import PowerState
from tests.faults.cloud import Cloud
from tests.faults.mover import PROMPT
from tests.faults.storms import KINDS, MOVES, ROOMY, STORM, Storm, live, violations
from tests.faults.test_crash_table import unfinished
from tests.faults.test_storms_of_moves import copies
from tests.faults.world import Faults

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.nightly("half a minute each; test_evacuation.py has one host that dies"),
]
SEEDS = 24
FAULTS = (
    Faults(),
    Faults(lose=0.05),
    Faults(delay=0.3),
    Faults(kill=0.005),
    Faults(lose=0.05, delay=0.2, kill=0.005, step=0.002),
    Faults(lose_commit=0.05, database_away=0.005),
)
# Seconds without power.
AWAY = (5.0, 40.0, 120.0, 300.0)
# Seconds between two looks at what runs, and between two tries of an operator.
LOOK, AGAIN = 3.0, 20.0
TRIES = 60


class PowerCut:
    """The two hosts with most guests lose their power, one after the other."""

    def __init__(self) -> None:
        self.doubled: list[str] = []

    def begin(self, cloud: Cloud) -> None:
        world = cloud.world
        for rank in range(2):
            world.later(world.random.uniform(20, STORM), None, partial(self._cut, cloud, rank))
        self._look(cloud)

    def _cut(self, cloud: Cloud, rank: int) -> None:
        world, drivers = cloud.world, cloud.drivers
        host = sorted(cloud.hosts, key=lambda name: -len(drivers[name].domains()))[rank]
        world.keep_down([host], world.random.choice(AWAY))
        for domain in drivers[host].domains():
            drivers[host].turn(domain.uuid, PowerState.SHUTDOWN)
        fenced = world.random.uniform(1, 10)
        world.later(fenced, None, partial(self._force, cloud, host, TRIES, down=True))
        # Twice: an operator asks again for what was refused.
        for after in (world.random.uniform(1, 5), world.random.uniform(10, 60)):
            world.later(fenced + after, None, partial(self._evacuate, cloud, host))
        world.later(world.random.uniform(60, 300), None, partial(self._force, cloud, host, TRIES, down=False))

    def _force(self, cloud: Cloud, host: str, tries: int, *, down: bool) -> None:
        with cloud.db.read() as session:
            service = session.scalars(select(Service.uuid).where(Service.host == host)).first()
        try:
            cloud.conductor.update_service(cloud.user(), service_uuid=str(service), forced_down=down)
        except errors.MinovaError:
            if tries:
                cloud.world.later(AGAIN, None, partial(self._force, cloud, host, tries - 1, down=down))

    def _evacuate(self, cloud: Cloud, host: str) -> None:
        with cloud.db.read() as session:
            query = select(Instance.uuid).where(Instance.host == host, Instance.deleted_at.is_(None))
            uuids = session.scalars(query.order_by(Instance.uuid)).all()
        for uuid in uuids:
            with suppress(errors.MinovaError):
                cloud.conductor.evacuate_server(cloud.user(), instance_uuid=uuid, request=EvacuationRequest())

    def _look(self, cloud: Cloud) -> None:
        self.doubled += [f"at {cloud.world.now:.0f} s {copy}" for copy in copies(cloud)]
        cloud.world.later(LOOK, None, partial(self._look, cloud))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_after_a_storm_of_power_cuts_each_server_is_in_one_place(tmp_path: Path, seed: int) -> None:
    cut = PowerCut()
    storm = Storm(
        faults=FAULTS[seed % len(FAULTS)],
        events=cut.begin,
        lasts=STORM * 1.3 + 330,
        overrides=ROOMY if seed % 2 else {},
    )
    resumes = {"resume_guests_state_on_host_boot": bool(seed % 4)}
    cloud = Cloud(seed, tmp_path, hosts=4, **(PROMPT | storm.overrides | resumes))
    try:
        live(cloud, storm, requests=3, kinds=MOVES if seed % 3 else (*KINDS, *MOVES), acts=3)
        assert [*violations(cloud, storm), *unfinished(cloud), *copies(cloud), *cut.doubled] == []
    finally:
        cloud.world.close()
