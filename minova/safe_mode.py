"""Safe mode: while it is on, a process changes and removes nothing. It serves reads, reports, and keeps running what
runs. See docs/decisions/0046.

One object per process. Each service of the process may hold it on for its own reasons: the database says so, or the
service itself has seen that the database is another one or has lost changes.
"""

import logging
import threading

from minova import errors, metrics

LOG = logging.getLogger(__name__)


class SafeMode:
    """Safe for threads."""

    def __init__(self) -> None:
        self._holds: dict[str, str] = {}
        self._lock = threading.Lock()

    @property
    def reason(self) -> str | None:
        """Returns why this process changes nothing; None if it may."""
        # No lock: the dictionary is replaced, never changed.
        return next(iter(self._holds.values()), None)

    def hold(self, by: str, reason: str, details: str = "") -> None:
        """Switch it on, until the same part of the process releases it. `reason`: for users. `details`: for the log, which gets
        one line for all parts that have the same reason.
        """
        with self._lock:
            is_known = reason in self._holds.values()
            self._holds = {**self._holds, by: reason}
            metrics.SAFE_MODE.set(1)
        if is_known:
            return
        LOG.error(
            "Safe mode: %s%s. Nothing is changed or removed; see `minova-manage recovery`",
            reason,
            f" ({details})" if details else "",
        )

    def release(self, by: str) -> None:
        with self._lock:
            if by not in self._holds:
                return
            self._holds = {name: reason for name, reason in self._holds.items() if name != by}
            if self._holds:
                return
            metrics.SAFE_MODE.set(0)
        LOG.info("Safe mode has ended")

    def is_held(self, by: str) -> bool:
        """Returns whether this part of the process holds it on."""
        return by in self._holds

    def reason_of(self, *parts: str) -> str | None:
        """Returns why these parts of the process hold it on; None if none of them does."""
        holds = self._holds
        return next((holds[by] for by in parts if by in holds), None)

    def require_off(self) -> None:
        """Raises ServiceUnavailable while it is on."""
        reason = self.reason
        if reason is not None:
            raise errors.ServiceUnavailable(refusal(reason))


def refusal(reason: str) -> str:
    """Returns the text of refused changes."""
    return (
        f"Safe mode: {reason}. Reads are served, and nothing is changed until safe mode has ended: "
        "see `minova-manage recovery`."
    )
