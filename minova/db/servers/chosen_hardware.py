"""The hardware that is chosen once per server, in its system metadata."""

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from minova.db.models import Instance
from minova.db.servers import instances
from minova.objects.servers.chosen_hardware import MACHINE_TYPE, ChosenHardware


def record(session: Session, chosen: Mapping[str, ChosenHardware], at: datetime) -> None:
    """Records {instance uuid: hardware} of locked instances. Earlier records stay."""
    if not chosen:
        return
    query = select(Instance.uuid, Instance.system_metadata).where(Instance.uuid.in_(sorted(chosen)))
    for uuid, stored in session.execute(query).all():
        system_metadata = stored or {}
        if MACHINE_TYPE not in system_metadata:
            instances.set_attributes(
                session, uuid, at, {"system_metadata": {**system_metadata, **chosen[uuid].recorded}}
            )
