"""Findings of checks."""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum

import msgspec
from oslo_config import cfg
from sqlalchemy.orm import Session

from minova.db.engine import Database
from minova.log import escaped


class Severity(StrEnum):
    """`error`: something does not work. `warning`: it will soon stop working, or an operator has to decide."""

    ERROR = "error"
    WARNING = "warning"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """`subject`: what is concerned, such as a service or a server. `problem`: what is wrong, in the same words each time.
    `detail`: figures and reasons. `mend`: the command that mends it, or that shows more.
    """

    area: str
    subject: str
    problem: str
    detail: str = ""
    mend: str
    severity: Severity = Severity.ERROR

    @property
    def key(self) -> tuple[str, str, str]:
        """The same for two findings of one fault: details may change meanwhile."""
        return (self.area, self.subject, self.problem)


class Patient(msgspec.Struct, frozen=True, kw_only=True):
    """What checks of the database read. `now`: the wall clock of this machine, seconds since the epoch. `is_standalone`: all services
    are one process. `conf_of`: the configuration of a service, from the files that it reads on this machine.
    """

    conf_of: Callable[[str], cfg.ConfigOpts]
    db: Database
    session: Session
    now: float
    is_standalone: bool = False

    def unit(self, binary: str) -> str:
        """Returns the unit of systemd that runs this service."""
        return "minova-standalone" if self.is_standalone else binary

    def conf(self, binary: str) -> cfg.ConfigOpts:
        """Returns the configuration of the process that is this service here."""
        return self.conf_of(self.unit(binary))


def in_both(first: Iterable[Finding], second: Iterable[Finding]) -> list[Finding]:
    """Returns the findings of the second reading that the first one has, too. Work in progress is found at most once: its rows
    are read one after the other while they change.
    """
    keys = {finding.key for finding in first}
    return [finding for finding in second if finding.key in keys]


def exit_code(findings: Sequence[Finding]) -> int:
    """Returns 0 if there are none, 1 for warnings alone and 2 for errors, as monitoring plugins do."""
    if any(finding.severity is Severity.ERROR for finding in findings):
        return 2
    return 1 if findings else 0


def text_of(findings: Sequence[Finding]) -> str:
    """Returns two lines for each: what is wrong, and the command. Hosts have named and reported some of it."""
    lines = []
    for finding in findings:
        detail = f": {finding.detail}" if finding.detail else ""
        lines.append(f"{finding.severity.upper():7}  {finding.area}: {finding.subject} {finding.problem}{detail}")
        lines.append(f"         mend: {finding.mend}")
    return "\n".join(map(escaped, lines))
