"""`minova-manage machine-type`: the recorded machine types of servers. Texts and exit codes are those of `nova-manage libvirt`."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from oslo_config import cfg
from sqlalchemy.orm import Session

from minova import errors
from minova.cmd.startup import database
from minova.conductor.servers import machine_types
from minova.db.schema import require_schema

T = TypeVar("T")
NO_INSTANCE, MISSING, INVALID_STATE, INVALID_UPDATE, UNSUPPORTED = 2, 3, 3, 4, 5


def list_machine_types(conf: cfg.ConfigOpts) -> int:
    uuid = conf.command.uuid
    try:
        types_by_uuid = _run(conf, lambda session: machine_types.recorded(session, uuid))
    except errors.NotFound as error:
        return _failed(error, NO_INSTANCE)
    if uuid is None:
        for each, machine_type in types_by_uuid.items():
            print(each, machine_type or "-")
        return 0
    if types_by_uuid[uuid] is None:
        print(f"No machine type registered for instance {uuid}")
        return MISSING
    print(types_by_uuid[uuid])
    return 0


def update(conf: cfg.ConfigOpts) -> int:
    command = conf.command
    at = datetime.now(UTC).replace(tzinfo=None)
    try:
        done = _run(
            conf,
            lambda session: machine_types.update(session, command.uuid, command.machine_type, at, force=command.force),
        )
    except errors.NotFound as error:
        return _failed(error, NO_INSTANCE)
    except machine_types.InvalidState as error:
        return _failed(error, INVALID_STATE)
    except machine_types.InvalidUpdate as error:
        return _failed(error, INVALID_UPDATE)
    except machine_types.UnsupportedMachineType as error:
        return _failed(error, UNSUPPORTED)
    print(f"Updated instance {command.uuid} machine type to {done.now} (previously {done.before})")
    return 0


def list_unset(conf: cfg.ConfigOpts) -> int:
    unset = [uuid for uuid, machine_type in _run(conf, machine_types.recorded).items() if machine_type is None]
    if not unset:
        print("No instances found without hw_machine_type set.")
        return 0
    print("\n".join(unset))
    return MISSING


def _failed(error: Exception, code: int) -> int:
    print(error, file=sys.stderr)
    return code


def _run(conf: cfg.ConfigOpts, work: Callable[[Session], T]) -> T:
    db = database.opened(conf, readonly=False)
    try:
        require_schema(db)
        return db.run(work)
    finally:
        db.close()
