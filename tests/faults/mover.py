"""A simulated cloud with one server that moves."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
from sqlalchemy import select

from minova import errors
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.db.models import Allocation, Instance, Migration, Task
from minova.objects.actions.moves import MoveRequest
from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.states import PowerState
from tests.faults.cloud import Cloud
from tests.faults.storms import DOUBLE
from tests.faults.world import Faults

PROMPT: dict[str, object] = {"conductor__worker_lease": 9, "conductor__task_interval": 2}
QUIET = 60.0


class _Patient:
    """A conductor for users. If a request was delivered twice, the second answer may be that the request was executed before, or that a
    server that was deleted at once is not there.
    """

    def __init__(self, conductor: ConductorApi) -> None:
        self._conductor = conductor

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            try:
                return getattr(self._conductor, name)(*arguments, **named)
            except errors.ServiceUnavailable as error:
                if "executed before" not in str(error):
                    raise
                return None
            except errors.NotFound:
                if name != "delete_server":
                    raise
                return None

        return call


def double_all(cloud: Cloud) -> None:
    """From now on each message may come twice."""
    cloud.world.faults = Faults(others_first=0.0, double=DOUBLE)
    cloud.conductor = cast(ConductorApi, _Patient(cloud.conductor))


class Mover:
    """A cloud of two hosts with one server."""

    def __init__(self, folder: Path, hosts: int = 2, **options: Any) -> None:
        self.cloud = Cloud(1, folder, hosts=hosts, **(PROMPT | options))
        self.cloud.world.faults = Faults(others_first=0.0)
        self.world = self.cloud.world
        # The hosts register and report.
        self.world.run(5.0)
        self.cloud.create(1, 1)
        (self.uuid,) = self.cloud.acknowledged
        self.wait(lambda: self.state[0] == "active" and self.is_at_rest())
        self.source = str(self.row.host)
        self._requests = 0

    @property
    def row(self) -> Instance:
        with self.cloud.db.read() as session:
            return session.scalars(select(Instance).where(Instance.uuid == self.uuid)).one()

    @property
    def other(self) -> str:
        """The host that the server is not on."""
        (other,) = {*self.cloud.hosts} - {str(self.row.host)}
        return other

    @property
    def state(self) -> tuple[str, str | None, str | None]:
        return self.row.vm_state, self.row.task_state, self.row.host

    def ask(self, kind: str, flavor: Flavor | None = None, host: str | None = None) -> None:
        self._requests += 1
        ctx = RequestContext(request_id=f"req-move-{self._requests}", user_id="u", project_id="p", is_admin=True)
        moves = kind in {"resize", "migrate", "live_migrate"}
        arguments = msgspec.to_builtins(MoveRequest(flavor=flavor, host=host)) if moves else {}
        self.cloud.conductor.start_action(ctx, instance_uuid=self.uuid, action=kind, arguments=arguments)

    def is_at_rest(self) -> bool:
        with self.cloud.db.read() as session:
            return session.scalar(select(Task.id)) is None and self.row.task_state is None

    def wait(self, ready: Callable[[], bool] | None = None, seconds: float = QUIET, step: float = 1.0) -> None:
        ready = ready or self.is_at_rest
        until = self.world.now + seconds
        while self.world.now < until and not ready():
            self.world.run(step)
        assert ready(), self.state

    def do(self, kind: str, flavor: Flavor | None = None, host: str | None = None) -> None:
        self.ask(kind, flavor, host)
        self.wait()

    def delete(self) -> None:
        self.cloud.delete_asked.add(self.uuid)
        ctx = RequestContext(request_id="req-delete", user_id="u", project_id="p")
        self.cloud.conductor.delete_server(ctx, instance_uuid=self.uuid)
        self.wait(lambda: self.row.vm_state == "deleted")

    def migration(self) -> Any:
        with self.cloud.db.read() as session:
            return session.scalars(select(Migration.value).order_by(Migration.id.desc())).first()

    def holders(self) -> dict[str, set[tuple[str, int]]]:
        """What each consumer holds: {consumer: {(class, amount)}}, by `instance` and `migration`."""
        names = {self.uuid: "instance"}
        allocations_by_host: dict[str, set[tuple[str, int]]] = {}
        with self.cloud.db.read() as session:
            for row in session.scalars(select(Allocation)):
                name = names.get(row.consumer_uuid, "migration")
                allocations_by_host.setdefault(name, set()).add((row.resource_class, row.used))
        return allocations_by_host

    def domains(self) -> dict[str, PowerState]:
        return {
            host: PowerState(domain.power_state)
            for host, driver in self.cloud.drivers.items()
            for domain in driver.domains()
            if domain.uuid == self.uuid
        }

    def require_sound(self) -> None:
        self.world.run(90.0)
        assert self.cloud.violations() == []
        assert self.migration().cleanup_host is None
