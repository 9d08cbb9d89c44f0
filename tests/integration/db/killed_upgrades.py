"""Upgrades of a database that are killed after each statement that changes it, until one comes to its end.

    python -m tests.integration.db.killed_upgrades URL STRIDE MOST

Prints the statements after which an upgrade was killed. Each upgrade is a process of its own that gets SIGKILL after STRIDE
statements more than the one before it. On MariaDB what was done until then stays. After MOST of them one comes to its end. If there are no tables at first, those of revision
`FILLED` get the rows of `ROWS`.
"""

import os
import re
import signal
import sys
from typing import Any

from alembic import command
from sqlalchemy import event, text
from sqlalchemy.engine import Engine

from minova.db import schema
from minova.db import upgrade as upgrades
from minova.db.engine import Database

FILLED = "0002"
CHANGES_OF_TABLES = ("CREATE", "ALTER", "DROP", "RENAME")
UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# A new one at each execution, too.
SECRET = re.compile(r"[0-9a-f]{32,}")
CHANGES_OF_ROWS = ("INSERT", "UPDATE", "DELETE")
_NODE = (
    "INSERT INTO compute_nodes (id, uuid, generation, host, hypervisor_hostname, vcpus, memory_mb, local_gb, vcpus_used, "
    "memory_mb_used, local_gb_used, free_ram_mb, free_disk_gb, current_workload, running_vms, hypervisor_type, "
    "hypervisor_version, cpu_info, supported_instances, metrics, stats, pci_device_pools, cpu_allocation_ratio, "
    "ram_allocation_ratio, disk_allocation_ratio, created_at) VALUES "
    "(1, 'of a node', 0, 'h', 'h', 1, 1, 1, 0, 0, 0, 1, 1, 0, 0, '', 0, '', '[]', '[]', '[]', '[]', 1, 1, 1, '2026-01-01')"
)
_INSTANCE = (
    "INSERT INTO instances (id, uuid, display_name, hostname, project_id, user_id, flavor, image_ref, vm_state, power_state, "
    "attempt, launch_index, reservation_id, metadata, system_metadata, config_drive, progress, created_at) VALUES "
    "({id}, 'u{id}', '', '', '', '', '', '{image}', 'active', 0, 0, 0, '', '[]', '[]', {false}, 0, '2026-01-01')"
)
# Rows that revisions read: providers of a node and without one, and instances of a deleted image.
ROWS = (
    "INSERT INTO resource_providers (id, uuid, name, generation) VALUES (1, 'of a node', 'a', 0)",
    "INSERT INTO resource_providers (id, uuid, name, generation, root_provider_id) VALUES (2, 'other', 'b', 0, 1)",
    _NODE,
    *(_INSTANCE.format(id=number, image="i" * 36, false="false") for number in (1, 2)),
)


def make(url: str, revision: str) -> None:
    """The tables of this revision, in one go."""
    db = Database(url)
    with db.write() as session:
        upgrades._note(session.connection(), None)
        command.upgrade(upgrades._config(session.connection()), revision)
    db.close()


def make_as_last_release(url: str) -> None:
    """Its tables, with the number of the revision where that release wrote it."""
    make(url, schema.LAST_RELEASE)
    db = Database(url)
    with db.write() as session:
        session.execute(text(f"DROP TABLE {schema.TABLE}"))
        session.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
        session.execute(text("INSERT INTO alembic_version VALUES (:it)"), {"it": schema.LAST_RELEASE})
    db.close()


def make_filled(url: str) -> None:
    make(url, FILLED)
    fill(url)


def fill(url: str) -> None:
    db = Database(url)
    with db.write() as session:
        for row in ROWS:
            session.execute(text(row))
    db.close()


def revision(url: str) -> str | None:
    db = Database(url)
    try:
        return schema.version(db)
    finally:
        db.close()


def kill_after_next(seen: set[str], more: int, tell: int) -> None:
    """Kill this process after its statement number `more` of those that are not among `seen`. Write it to the file `tell`.

    On MariaDB also after each statement that changes rows: such a statement is executed again, unlike changes of tables.
    """
    left = more

    def executed(connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        nonlocal left
        same = SECRET.sub("a secret", UUID.sub("a uuid", statement))
        if not same.lstrip().startswith(CHANGES_OF_TABLES + CHANGES_OF_ROWS) or same in seen:
            return
        os.write(tell, same.encode() + b"\0")
        left -= 1
        if connection.dialect.name == "mysql" and statement.startswith(CHANGES_OF_ROWS):
            if schema.TABLE not in statement:
                left = 0
            if left <= 0:
                # As the next change of a table does, before it changes anything.
                connection.connection.commit()
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Engine, "after_cursor_execute", executed)


def upgrade_until_killed(url: str, seen: set[str], more: int) -> list[str]:
    """Returns the statements that were new, of which the last one killed it; none: the upgrade came to its end."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            kill_after_next(seen, more, writing)
            upgrades.upgrade(url)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        new = told.read().decode().split("\0")[:-1]
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) == 0:
        return []
    if not os.WIFSIGNALED(status):
        raise SystemExit(f"An upgrade after {len(seen)} others failed")
    return new


def main(url: str, stride: int, most: int) -> None:
    seen: set[str] = set()
    filled = revision(url) is not None
    for _ in range(most):
        new = upgrade_until_killed(url, seen, stride)
        if not new:
            return
        seen.update(new)
        print(" ".join(new[-1].split()), flush=True)
        if not filled and revision(url) == FILLED:
            fill(url)
            filled = True
    upgrades.upgrade(url)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
