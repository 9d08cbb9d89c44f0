"""Asks the hypervisor whether it answers, and waits for the answer for a limited time.

A libvirtd that hangs may keep a call for as long as it hangs, although the connection has failed for another thread. The
heartbeats of the host must go on meanwhile: they tell that this process lives, and why it cannot work.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future

from minova.errors import HypervisorUnavailable

# Seconds. A host may miss several heartbeats before it counts as silent.
PROBE_WITHIN = 20.0


class HypervisorProbe:
    """`ask` is called in a thread of its own, one at a time: a call that is late is not repeated. Call it from one thread."""

    def __init__(self, ask: Callable[[], object], within: float = PROBE_WITHIN) -> None:
        self._ask = ask
        self._within = within
        self._pending: Future[None] | None = None

    def __call__(self) -> None:
        """Raises the errors of `ask`, and HypervisorUnavailable if there is no answer in time."""
        is_late, answer = self._pending is not None, self._pending or Future()
        if self._pending is None:
            self._pending = answer
            threading.Thread(target=self._answer, args=(answer,), name="hypervisor-probe", daemon=True).start()
        try:
            # Each call after the first looks whether the late answer has come.
            answer.result(0 if is_late else self._within)
        except TimeoutError:
            raise HypervisorUnavailable(f"The hypervisor has not answered within {self._within:g} s") from None
        finally:
            if answer.done():
                self._pending = None

    def _answer(self, answer: Future[None]) -> None:
        try:
            self._ask()
        except BaseException as error:  # noqa: BLE001  - the thread that waits raises it
            answer.set_exception(error)
        else:
            answer.set_result(None)
