"""What holds of the addresses of servers, in any order of requests, and whichever conductor dies at which statement."""

import uuid
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, consumes, invariant, rule, run_state_machine_as_test
from sqlalchemy import event, select

from minova import errors
from minova.db import models
from minova.db.networks import subnets
from minova.objects.network.addresses import candidates_after, in_pools
from minova.objects.network.network import Port
from minova.objects.requests.build_extras import RequestedNic
from tests.functional.conductor.conductor_harness import CTX, new_request, request
from tests.functional.conductor.network_cases import network, size_of, subnet
from tests.functional.conductor.quota_cases import used
from tests.functional.conductor.test_laws import CONDUCTORS, HOSTS, Dies, Tasks

# For ports they have 5, 5 and 13 addresses. A port on the first network has an address of each IP version.
RANGES = (("10.1.0.0/29", 0), ("fd00::/125", 0), ("10.2.0.0/28", 1))
REFUSALS = (errors.Conflict, errors.NotFound, errors.BadRequest, errors.IpAddressGenerationFailure)
NICS = st.lists(
    st.tuples(st.integers(0, 1), st.one_of(st.none(), st.none(), st.integers(0, 8))), min_size=1, max_size=3
)
# Statements and commits until it dies.
FUSES = st.integers(0, 60)


class Addresses(Tasks):
    """As `Tasks`, but every server has interfaces, and there are ports without a server."""

    servers = Bundle("servers")
    ports = Bundle("ports")

    def __init__(self) -> None:
        super().__init__()
        self.networks = [network(self.harness), network(self.harness)]
        for cidr, of in RANGES:
            subnet(self.harness, self.networks[of], cidr)
        self.nics: dict[str, int] = {}
        # Ports that were there before their server; when a server has one, others may not take it.
        self.own: set[str] = set()
        self.fuse: list[int] = []
        for name in ("before_cursor_execute", "commit"):
            event.listen(self.harness.db.engine, name, self._burn)

    def teardown(self) -> None:
        self._end_all()
        super().teardown()

    def _burn(self, *_: Any, **__: Any) -> None:
        if self.fuse:
            self.fuse[0] -= 1
            if self.fuse[0] < 0:
                self.fuse.clear()
                raise Dies

    def _until_death(self, who: str, fuse: int, work: Callable[[], Any]) -> None:
        """Do it on a conductor that dies after `fuse` statements, if it has not ended before."""
        self.fuse[:] = [fuse]
        try:
            work()
        except Dies:
            self.harness.kill(who)
        except REFUSALS:
            pass
        self.fuse.clear()
        self.die(who)

    def _request(self, nics: list[tuple[int, int | None]], **more: Any) -> Any:
        requested_nics = tuple(
            RequestedNic(network_id=self.networks[of].id, ip_address=None if host is None else f"10.{of + 1}.0.{host}")
            for of, host in nics
        )
        return request(1, requested_networks=requested_nics, **more)

    # -- what is done ----------------------------------------------------------------------------------------------

    @rule(target=servers, who=st.sampled_from(CONDUCTORS), nics=NICS)
    def ask(self, who: str, nics: list[tuple[int, int | None]]) -> str:
        try:
            instance_uuid = self.conductors[who].create_servers(CTX, request=self._request(nics)).instance_uuids[0]
        except REFUSALS:
            return self._any_server()
        self.nics[instance_uuid] = len(nics)
        return instance_uuid

    def _any_server(self) -> str:
        return next(iter(self.nics), str(uuid.uuid4()))

    @rule(target=ports, of=st.integers(0, 1))
    def make_port(self, of: int) -> str:
        port = Port(id=str(uuid.uuid4()), network_id=self.networks[of].id, project_id=CTX.project_id)
        try:
            self.harness.conductor.create_port(CTX, port=port, fixed_ips=None)
        except REFUSALS:
            return port.id
        self.own.add(port.id)
        return port.id

    @rule(target=servers, who=st.sampled_from(CONDUCTORS), port=ports, of=st.integers(0, 1))
    def ask_with_port(self, who: str, port: str, of: int) -> str:
        requested_nics = (RequestedNic(network_id=self._network_of(port) or self.networks[of].id, port_id=port),)
        try:
            answer = self.conductors[who].create_servers(CTX, request=request(1, requested_networks=requested_nics))
        except REFUSALS:
            return self._any_server()
        self.nics[answer.instance_uuids[0]] = 1
        return answer.instance_uuids[0]

    def _network_of(self, port: str) -> str | None:
        query = select(models.Network.uuid).join(models.Port, models.Port.network_id == models.Network.id)
        with self.harness.db.read() as session:
            return session.scalar(query.where(models.Port.uuid == port))

    @rule(port=consumes(ports))
    def drop_port(self, port: str) -> None:
        try:
            self.harness.conductor.delete_port(new_request(), port_id=port)
        except REFUSALS:
            return
        self.own.discard(port)

    @rule(who=st.sampled_from(CONDUCTORS), nics=NICS, fuse=FUSES)
    def ask_one_that_dies(self, who: str, nics: list[tuple[int, int | None]], fuse: int) -> None:
        """The client does not hear of it, and asks again."""
        create_request = self._request(nics, request_uuid=str(uuid.uuid4()), body_hash="h")

        def work() -> None:
            self.conductors[who].create_servers(CTX, request=create_request)
            self.harness.settle()

        self._until_death(who, fuse, work)
        try:
            instance_uuids = self.conductors[who].create_servers(CTX, request=create_request).instance_uuids
        except REFUSALS:
            return
        self.nics[instance_uuids[0]] = len(nics)

    @rule(server=servers, who=st.sampled_from(CONDUCTORS), fuse=FUSES, host=HOSTS)
    def delete_by_one_that_dies(self, server: str, who: str, fuse: int, host: str) -> None:
        def work() -> None:
            self.conductors[who].delete_server(new_request(), instance_uuid=server)
            self.harness.settle()
            self.conductors[who].instance_deleted(CTX, instance_uuid=server, host=host)

        self._until_death(who, fuse, work)

    # -- what holds ------------------------------------------------------------------------------------------------

    @invariant()
    def every_server_has_its_interfaces_and_no_other_has_any(self) -> None:
        with self.harness.db.read() as session:
            living = set(session.scalars(select(models.Instance.uuid).where(models.Instance.vm_state != "deleted")))
            rows = list(session.scalars(select(models.Port)))
        attached = Counter(row.instance_uuid for row in rows if row.instance_uuid is not None)
        assert attached == Counter({each: self.nics[each] for each in living if each in self.nics}), "interfaces"
        assert {row.uuid for row in rows if not row.made_for_instance} == self.own
        assert all(row.instance_uuid is not None for row in rows if row.made_for_instance), "leaked"
        assert len({row.mac_address for row in rows}) == len(rows)
        assert used(self.harness).get("ports", 0) == len(rows)

    @invariant()
    def used_and_free_are_the_pool(self) -> None:
        with self.harness.db.read() as session:
            given = [(row.subnet_id, row.address, row.port_id) for row in session.scalars(select(models.IpAllocation))]
            versions = Counter(row.network_id for row in session.scalars(select(models.Subnet)))
            version_by_port = {row.id: versions[row.network_id] for row in session.scalars(select(models.Port))}
            for row in session.scalars(select(models.Subnet)):
                pools, taken = subnets.pools_of(row), {each[1] for each in given if each[0] == row.id}
                in_pool = [each for each in taken if in_pools(pools, each)]
                free = [each for each in candidates_after(pools, None, 100) if each not in taken]
                assert len(in_pool) + len(free) == size_of(pools)
                assert row.gateway_ip not in taken
        assert len({each[:2] for each in given}) == len(given)
        assert self._of_ports(given).keys() <= version_by_port.keys(), "an address without a port"

    @staticmethod
    def _of_ports(given: Collection[tuple[int, str, int]]) -> Counter[int]:
        return Counter(each[2] for each in given)

    def _end_all(self) -> None:
        """Every server is deleted, and its host says so: nothing is left but the ports of people."""
        self.harness.scheduler.lose_answer, self.harness.scheduler.mood = False, None
        for fake in self.harness.hosts.values():
            fake.deaf = False
        for _ in range(6):
            with self.harness.db.read() as session:
                living = list(
                    session.scalars(select(models.Instance.uuid).where(models.Instance.vm_state != "deleted"))
                )
            for each in living:
                self._say(lambda each=each: self.harness.conductor.delete_server(new_request(), instance_uuid=each))  # type: ignore[misc]  # a default binds the loop's variable
            self.harness.settle()
            for host in "abc":
                self.removed(host)
            self.harness.now += 40
            self.harness.beat()
        with self.harness.db.read() as session:
            left = {row.uuid: row.id for row in session.scalars(select(models.Port))}
            holders = set(session.scalars(select(models.IpAllocation.port_id)))
        assert left.keys() == self.own
        assert holders <= set(left.values())
        assert used(self.harness).get("ports", 0) == len(left)


def test_laws_of_the_addresses_of_servers() -> None:
    run_state_machine_as_test(
        Addresses,
        settings=settings(
            max_examples=6, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
