"""Rows of hosts for tests of the CLI."""

import time
import uuid
from typing import Any

from minova.db import models
from tests.fakes.row_conductor import now
from tests.functional.api.conftest import Cloud


def add_service(cloud: Cloud, key: int, host: str, binary: str = "minova-compute", silent: float = 0) -> None:
    """`silent`: the seconds since it was heard last."""
    kind = {"binary": binary, "topic": binary.removeprefix("minova-"), "created_at": now()}
    cloud.conductor.add(models.Service(id=key, uuid=str(uuid.uuid4()), host=host, **kind))
    cloud.conductor.add(models.Heartbeat(service_id=key, last_seen=time.time() - silent))


def add_node(cloud: Cloud, key: int, host: str, name: str, **more: Any) -> None:
    used = {"vcpus": 8, "vcpus_used": 3, "memory_mb": 16000, "memory_mb_used": 4608, "free_ram_mb": 11392}
    kind = {"hypervisor_type": "QEMU", "cpu_info": '{"arch": "x86_64"}', "created_at": now()}
    own = {"id": key, "uuid": str(uuid.uuid4()), "host": host, "hypervisor_hostname": name}
    cloud.conductor.add(models.ComputeNode(**own, **{**used, **kind, **more}))
