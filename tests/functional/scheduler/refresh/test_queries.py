"""What the queries of the refresh bring, on every engine: run on SQLite here, on real servers in the integration tests."""

import msgspec
import pytest

from minova.db import models
from minova.db.engine import Database
from minova.objects.hosts.numa import InstanceNUMACell, InstanceNUMATopology
from minova.objects.hosts.pci import InstancePCIRequest
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.refresh import queries
from tests.functional.scheduler.cloud import SEEN, spec_of

SPECS = {
    "plain": spec_of(),
    # A value that looks like JSON with cells in it.
    "text": msgspec.structs.replace(spec_of(), availability_zone='"numa_topology":{'),
    "cells": msgspec.structs.replace(
        spec_of(),
        numa_topology=InstanceNUMATopology(cells=(InstanceNUMACell(id=0, cpuset=frozenset({0}), memory=512),)),
    ),
    "devices": msgspec.structs.replace(spec_of(), pci_requests=(InstancePCIRequest(count=1, spec=()),)),
}


@pytest.mark.parametrize(("name", "spec"), SPECS.items(), ids=SPECS.keys())
def test_only_requests_for_cells_or_devices_are_read(db: Database, name: str, spec: RequestSpec) -> None:
    with db.write() as session:
        session.add(models.RequestSpecRow(reservation_id=name, spec=spec, carried={}, created_at=SEEN))
    with db.read() as session:
        rows = session.execute(queries.WANTED, {"some": [name, "another"]}).all()
    assert [row[0] for row in rows] == ([name] if name in ("cells", "devices") else [])
