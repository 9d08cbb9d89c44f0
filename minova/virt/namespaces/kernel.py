"""Works in network namespaces, and runs programs there."""

import ctypes
import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from minova.errors import HypervisorError
from minova.virt.programs import PATH

T = TypeVar("T")
# Where `ip netns` keeps its namespaces.
NAMED = Path("/run/netns")
OWN = Path("/proc/self/ns/net")
_CLONE_NEWNET = 0x40000000
_WITHIN = 30.0
_LIBC = ctypes.CDLL(None, use_errno=True)


def within(namespace: Path, work: Callable[[], T]) -> T:
    """Does the work in a thread inside the namespace; programs that it starts are there, too. Raises what it raises, or
    OSError if there is no such namespace.
    """
    done: list[T] = []
    failed: list[BaseException] = []
    handle = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)

    def enter() -> None:
        try:
            if _LIBC.setns(handle, _CLONE_NEWNET):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), str(namespace))
            done.append(work())
        except BaseException as error:  # noqa: BLE001  - the caller gets it
            failed.append(error)

    try:
        # A thread of its own: it ends with the work, and no other work ever runs in the namespace.
        thread = threading.Thread(target=enter, name="namespace", daemon=True)
        thread.start()
        thread.join()
    finally:
        os.close(handle)
    if failed:
        raise failed[0]
    return done[0]


def run(command: Sequence[str], text: str = "") -> str:
    """Returns the output of a program, which gets `text` as its input. Raises HypervisorError with what it says if it
    fails.
    """
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            timeout=_WITHIN,
            check=False,
            env={"PATH": PATH, "LC_ALL": "C"},
            cwd="/",
        )
    except FileNotFoundError:
        raise HypervisorError(f"{command[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise HypervisorError(f"{' '.join(command)} has not ended within {_WITHIN:g} s") from None
    if done.returncode:
        output = " ".join((done.stderr or done.stdout).split())
        raise HypervisorError(f"{' '.join(command)}: {output[-1000:]}")
    return done.stdout


def ip(lines: Sequence[str], namespace: str = "") -> None:
    """Runs commands of iproute2, each of which may be repeated. Raises HypervisorError with the first that fails."""
    if lines:
        run(
            ["ip", *(["-netns", namespace] if namespace else []), "-batch", "-"], "".join(f"{line}\n" for line in lines)
        )
