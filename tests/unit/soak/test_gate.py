"""What may not happen while the database goes back in time."""

import threading

from tests.soak.gate import FaultGate
from tests.waiting import wait_for


def entered(gate: FaultGate, *, alone: bool, leave: threading.Event) -> tuple[threading.Thread, threading.Event]:
    inside = threading.Event()

    def pass_through() -> None:
        with gate.alone() if alone else gate.together():
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=pass_through, daemon=True)
    thread.start()
    return thread, inside


def test_many_pass_together_and_one_alone_waits_for_them() -> None:
    gate, leave = FaultGate(), threading.Event()
    _, first = entered(gate, alone=False, leave=leave)
    _, second = entered(gate, alone=False, leave=leave)
    assert first.wait(60)
    assert second.wait(60)
    _, alone = entered(gate, alone=True, leave=threading.Event())
    assert not alone.wait(0.1)
    leave.set()
    assert alone.wait(60)


def test_nothing_enters_while_one_is_alone_or_waits_for_it() -> None:
    gate, leave_first, leave_alone = FaultGate(), threading.Event(), threading.Event()
    _, first = entered(gate, alone=False, leave=leave_first)
    assert first.wait(60)
    _, alone = entered(gate, alone=True, leave=leave_alone)
    wait_for("it waits to be alone", lambda: gate._waiting)
    last, late = entered(gate, alone=False, leave=leave_alone)
    leave_first.set()
    assert alone.wait(60)
    assert not late.is_set()
    leave_alone.set()
    last.join(60)
    assert late.is_set()
