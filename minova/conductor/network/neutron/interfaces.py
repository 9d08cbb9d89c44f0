"""Interfaces on Neutron networks, in a conductor that may or may not be configured for Neutron."""

import logging
from typing import TYPE_CHECKING

from sqlalchemy import select
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.compute_messages import ComputeClient
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.conductor.api.neutron import NeutronEventsApi
from minova.contracts.conductor.computes.interfaces import BindInterfacesApi
from minova.db.models import Instance
from minova.db.networks import neutron_ports
from minova.objects.network.vif import NEUTRON, Vif
from minova.objects.requests.build_extras import RequestedNic

if TYPE_CHECKING:
    from minova.conductor.network.neutron.ports import NeutronPorts

LOG = logging.getLogger(__name__)


class NeutronInterfaces(NeutronEventsApi, BindInterfacesApi):
    """`neutron`: None if this conductor is not configured for Neutron."""

    def __init__(self, worker: TaskWorker, neutron: "NeutronPorts | None", computes: ComputeClient) -> None:
        self._worker = worker
        self._neutron = neutron
        self._computes = computes

    def network_changed(self, ctx: RequestContext, instance_uuid: str, host: str) -> None:
        if self._neutron is not None:
            try:
                self._neutron.refresh(instance_uuid)
            except errors.MinovaError as error:  # a later round sees it; the host may be waiting for this event
                LOG.info("The interfaces of instance %s are read later: %s", instance_uuid, error)
        self._computes.network_changed(ctx, host, instance_uuid)

    def expect_port(self, ctx: RequestContext, instance_uuid: str, network_id: str) -> None:
        """`NeutronCleaning` checks later whether an interface has the port."""

        def work(session: Session) -> None:
            living = Instance.uuid == instance_uuid, Instance.deleted_at.is_(None)
            project_id = session.scalar(select(Instance.project_id).where(*living))
            if project_id is None:
                raise errors.NotFound(f"Instance {instance_uuid} could not be found.")
            nic = RequestedNic(network_id=network_id, service=NEUTRON)
            neutron_ports.expect(session, instance_uuid, project_id, nic, self._worker.at())

        self._worker.run(work)

    def bind_interfaces(self, ctx: RequestContext, instance_uuid: str, attempt: int, host: str) -> tuple[Vif, ...]:
        if self._neutron is None:
            raise errors.NetworkNotConfigured("This conductor is not configured for Neutron.")
        return self._neutron.bind(instance_uuid, attempt, host)
