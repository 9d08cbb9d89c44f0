"""Drivers written for Nova: a class with Nova's `select_destinations`, called as Nova 17 called it.

The driver's author only changes the import of the base class from `nova.scheduler.driver` to this module. Placement is
queried before the call and the allocations are written after it, so such a driver only chooses.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from minova import errors
from minova.context import RequestContext, service_context
from minova.db.engine import Database
from minova.objects.requests.diagnosis import FilterStep
from minova.objects.requests.request_spec import HostLimits, RequestSpec, Selection
from minova.scheduler.decide.chain import ChainRun, Rules
from minova.scheduler.decide.decision import Decision
from minova.scheduler.decide.diagnosis import LOST_WHEN_FOUND, LOST_WHEN_NOT, filter_steps
from minova.scheduler.decide.preselection import resources_at
from minova.scheduler.drivers.base import Driver
from minova.scheduler.drivers.claim_loop import ClaimLoop
from minova.scheduler.drivers.filter_scheduler import rules_of, with_group_filters
from minova.scheduler.drivers.request import Request
from minova.scheduler.hosts.nova_view import NovaHostState
from minova.scheduler.hosts.table import HostTable
from minova.scheduler.refresh.host_source import HostSource
from minova.scheduler.weights import WeighedHost, weigh
from minova.service import PeriodicTask

# The microversion of Placement that defines the format of the passed allocation requests.
ALLOCATION_REQUEST_VERSION = "1.36"


class Scheduler:
    """Base class of drivers written for Nova. `host_manager` is set after `__init__`."""

    USES_ALLOCATION_CANDIDATES = True
    host_manager: "HostManager"

    def select_destinations(
        self,
        context: Any,
        spec_obj: Any,
        instance_uuids: Any,
        alloc_reqs_by_rp_uuid: Any,
        provider_summaries: Any,
        allocation_request_version: Any = None,
        return_alternates: bool = False,
    ) -> Any:
        """Returns a list for each instance: the chosen host and its alternates, as HostStates or Selections.

        If there are not enough hosts, raises NoValidHost or returns fewer lists than instances.
        """
        raise NotImplementedError

    def run_periodic_tasks(self, context: Any) -> None:
        """Called every `[scheduler] periodic_task_interval` seconds."""

    def hosts_up(self, context: Any, topic: str) -> list[str]:
        """Names of the hosts whose compute service is up."""
        return [state.host for state in self.host_manager.get_all_host_states(context) if not _down(state.service)]


class DriverHostState(NovaHostState):
    def consume_from_request(self, spec_obj: RequestSpec) -> None:
        """Until the next refresh, the table counts one instance more on this host."""
        self._table.consume(self.row, spec_obj, resources=resources_at(self._table.host(self.row), spec_obj))


class HostManager:
    """The methods that a driver may use to filter and weigh hosts, with Nova's names."""

    def __init__(self, table: HostTable, rules: Rules) -> None:
        self._table = table
        self._rules = rules

    def get_all_host_states(self, context: Any) -> Iterator[DriverHostState]:
        return (DriverHostState(self._table, row) for row in range(len(self._table)))

    def get_host_states_by_uuids(
        self, context: Any, compute_uuids: Iterable[str], spec_obj: Any
    ) -> Iterator[DriverHostState]:
        uuids = {*compute_uuids}
        return (state for state in self.get_all_host_states(context) if state.uuid in uuids)

    def get_filtered_hosts(self, hosts: Iterable[Any], spec_obj: RequestSpec, index: int = 0) -> list[Any]:
        """Returns the hosts that pass every configured filter."""
        return [host for host in hosts if not self._refused(host.row, spec_obj)]

    def _refused(self, row: int, spec: RequestSpec) -> bool:
        state = self._table.host(row)
        return any(host_filter.refusal_reason(state, spec) is not None for host_filter in self._rules.filters)

    def get_weighed_hosts(self, hosts: Iterable[Any], spec_obj: RequestSpec) -> list[WeighedHost]:
        """Weighs the hosts by the configured weighers. Returns the best first."""
        by_row = {host.row: host for host in hosts}
        rows = sorted(by_row)
        total = weigh(self._table, np.array(rows, np.int64), spec_obj, self._rules.weighers).total
        weighed = [WeighedHost(by_row[row], float(weight)) for row, weight in zip(rows, total, strict=True)]
        return sorted(weighed, key=lambda weighed_host: weighed_host.weight, reverse=True)


class NovaDriver(Driver):
    """Adapts an object of `scheduler_class`. Raises InvalidConfiguration for an unknown filter or
    weigher.
    """

    def __init__(
        self,
        conf: Any,
        db: Database,
        scheduler_class: type[Scheduler],
        *,
        clock: Callable[[], float],
        rng: random.Random | None = None,
    ) -> None:
        self._conf = conf
        self._rules = rules_of(conf, rng or random.Random())
        self._interval = float(conf.scheduler.periodic_task_interval or 60)
        source = HostSource(db, service_down_time=conf.service_down_time, clock=clock)
        self._driver = scheduler_class()
        self._driver.host_manager = HostManager(source.table, self._rules)
        none = self._rules._replace(filters=())
        super().__init__(ClaimLoop(db, source, self._decide), lambda spec: with_group_filters(none, spec, conf))

    def periodic_tasks(self) -> Sequence[PeriodicTask]:
        if self._interval < 0:
            return ()
        work = lambda: self._claim_loop.exclusive(lambda: self._driver.run_periodic_tasks(service_context()))  # noqa: E731
        return [PeriodicTask(name="run_periodic_tasks", interval=self._interval, work=work)]

    def _decide(self, table: HostTable, request: Request) -> Decision:
        table.begin()
        rules = with_group_filters(self._rules._replace(filters=()), request.spec, self._conf)
        run = ChainRun(table, rules)
        rows = np.flatnonzero(run.candidates(request.spec)).tolist()
        # The driver changes the table, so the record is made before. It is not known yet whether the driver finds
        # hosts.
        steps = filter_steps(table, run.steps, LOST_WHEN_NOT)
        chosen = self._choose(table, rows, request)
        return Decision(
            selections=chosen.selections if chosen.error is None else (),
            hosts=len(table),
            found=len(chosen.selections),
            steps=steps if chosen.error is not None else tuple(map(_shortened, steps)),
            error=chosen.error,
        )

    def _choose(self, table: HostTable, rows: Sequence[int], request: Request) -> "DriverChoice":
        if not rows:
            return DriverChoice(error="No host is left for it.")
        consumed = sum(len(uuids) for uuids in table.consumed.values())
        try:
            answered = self._ask(table, rows, request)
        except errors.NoValidHost as error:
            return DriverChoice(error=str(error))
        selections = [_selections(table, ranking, request) for ranking in answered]
        if len(selections) < len(request.instance_uuids) or not all(selections):
            return DriverChoice(tuple(filter(None, selections)), f"{type(self._driver).__name__} found too few hosts.")
        if consumed == sum(len(uuids) for uuids in table.consumed.values()):
            for ranking, uuid in zip(selections, request.instance_uuids, strict=False):
                row = _row(table, ranking[0].host, ranking[0].node)
                table.consume(row, request.spec, uuid, resources=ranking[0].allocation)
        return DriverChoice(tuple(selections))

    def _ask(self, table: HostTable, rows: Sequence[int], request: Request) -> Sequence[Sequence[Any]]:
        spec = request.spec
        uuids = [table.records[row].uuid for row in rows]
        answered = self._driver.select_destinations(
            RequestContext(request_id=request.request_id, project_id=spec.project_id, user_id=spec.user_id),
            spec,
            list(request.instance_uuids),
            {uuid: [_allocation(table, row, spec)] for uuid, row in zip(uuids, rows, strict=True)},
            {uuid: _summary(table, row, spec) for uuid, row in zip(uuids, rows, strict=True)},
            ALLOCATION_REQUEST_VERSION,
            return_alternates=request.alternates > 0,
        )
        return list(answered or ())


class DriverChoice(NamedTuple):
    """The driver's hosts for each instance, as Selections. `error`: why these are not enough."""

    selections: tuple[tuple[Selection, ...], ...] = ()
    error: str | None = None


def _shortened(step: FilterStep) -> FilterStep:
    return msgspec.structs.replace(step, lost=step.lost[:LOST_WHEN_FOUND])


def _allocation(table: HostTable, row: int, spec: RequestSpec) -> Mapping[str, Any]:
    resources = dict(resources_at(table.host(row), spec))
    return {"allocations": {table.records[row].uuid: {"resources": resources}}}


def _summary(table: HostTable, row: int, spec: RequestSpec) -> Mapping[str, Any]:
    inventories = {name: table.inventory_of(row, name) for name in resources_at(table.host(row), spec)}
    return {
        "resources": {
            name: {"capacity": inventory.capacity, "used": inventory.used} for name, inventory in inventories.items()
        },
        "traits": sorted(table.records[row].traits),
    }


def _selections(table: HostTable, answered: Sequence[Any], request: Request) -> tuple[Selection, ...]:
    """Converts the driver's hosts for one instance, with at most as many alternates as requested."""
    return tuple(_selection(table, answer, request.spec) for answer in list(answered)[: request.alternates + 1])


def _selection(table: HostTable, answer: Any, spec: RequestSpec) -> Selection:
    host = getattr(answer, "service_host", None) or answer.host
    node = getattr(answer, "nodename", None) or answer.node
    row = _row(table, host, node)
    record = table.records[row]
    limits = getattr(answer, "limits", None)
    return Selection(
        host=record.host,
        node=record.node,
        provider_uuid=record.uuid,
        allocation=dict(resources_at(table.host(row), spec)),
        limits=limits if isinstance(limits, HostLimits) else HostLimits(**(limits or {})),
    )


def _row(table: HostTable, host: str, node: str) -> int:
    for row in table.rows_of_host(host.lower()):
        if (table.records[row].host, table.records[row].node) == (host, node):
            return row
    raise errors.MinovaError(f"The scheduler driver chose {host}, node {node}, which is not known.")


def _down(service: Mapping[str, Any]) -> bool:
    return bool(service["forced_down"]) or service["down_reason"] is not None or service["silent_since"] is not None
