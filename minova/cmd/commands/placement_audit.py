"""`minova-manage placement audit`: shows where allocations disagree with the instances, and repairs it with --fix."""

from collections.abc import Iterator
from typing import Any

import msgspec
from oslo_config import cfg

from minova import errors
from minova.cmd.startup import database
from minova.db.engine import Database
from minova.db.schema import require_schema
from minova.log import escaped
from minova.placement.audit import gather, heal
from minova.placement.audit.judge import AuditFinding


class FindingRow(msgspec.Struct, frozen=True, kw_only=True):
    """One finding.

    `healed`: None if no repair was tried.
    `reason`: why the repair failed.
    """

    problem: str
    detail: str
    remedy: str
    consumer_uuid: str | None
    provider_uuid: str | None
    resource_class: str | None
    healed: bool | None = None
    reason: str | None = None


def run(conf: cfg.ConfigOpts) -> None:
    """Raises Conflict if some findings could not be healed."""
    db = database.opened(conf, readonly=not conf.command.fix)
    try:
        require_schema(db)
        rows = list(_fixed(db) if conf.command.fix else _findings(db))
    finally:
        db.close()
    print(_json(rows) if conf.command.json else table(rows))
    unhealed = sum(row.healed is False for row in rows)
    if unhealed:
        raise errors.Conflict(f"{unhealed} of {len(rows)} findings were left as they are.")


def _findings(db: Database) -> Iterator[FindingRow]:
    with db.read() as session:
        for finding in gather.findings(session):
            yield _row(finding)


def _fixed(db: Database) -> Iterator[FindingRow]:
    for healed in heal.fix(db):
        yield _row(healed.finding, healed=healed.reason is None, reason=healed.reason)


def _row(finding: AuditFinding, **outcome: Any) -> FindingRow:
    return FindingRow(
        problem=finding.kind.value,
        detail=finding.detail,
        remedy=finding.remedy,
        consumer_uuid=finding.consumer_uuid,
        provider_uuid=finding.provider_uuid,
        resource_class=finding.resource_class,
        **outcome,
    )


def _json(rows: list[FindingRow]) -> str:
    return msgspec.json.format(msgspec.json.encode(rows), indent=2).decode()


def table(rows: list[FindingRow]) -> str:
    """Returns one line for each finding: its consumer or provider, what is wrong, and what was done or would be
    done.
    """
    if not rows:
        return "Nothing is wrong."
    head = ("PROBLEM", "OF", "WHAT IS WRONG", "TO BE DONE" if rows[0].healed is None else "DONE")
    lines = [
        head,
        *(
            (row.problem, row.consumer_uuid or row.provider_uuid or "", escaped(row.detail), escaped(_outcome_of(row)))
            for row in rows
        ),
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    return "\n".join(
        "  ".join([*(text.ljust(width) for text, width in zip(line, widths, strict=False)), line[3]]).rstrip()
        for line in lines
    )


def _outcome_of(row: FindingRow) -> str:
    if row.healed is None:
        return row.remedy or "nothing can be done from here"
    return row.remedy if row.healed else f"not done: {row.reason}"
