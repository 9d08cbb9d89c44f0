"""Changes of one revision of a resource: `If-Match`, and changes of a record that was read before."""

from typing import Protocol

from minova import errors


class RevisedRow(Protocol):
    """A locked row."""

    @property
    def revision_number(self) -> int: ...


def changed(kind: str, identity: str) -> errors.RevisionNumberConstraintFailed:
    return errors.RevisionNumberConstraintFailed(f"The {kind} {identity} has changed meanwhile. Please try again.")


def require_revision(row: RevisedRow, revision: int | None) -> None:
    """`revision`: that the request requires; None: any. Raises PreconditionFailed if the row has another one."""
    if revision is not None and revision != row.revision_number:
        raise errors.PreconditionFailed(f"Constrained to {revision}, but current revision is {row.revision_number}")
