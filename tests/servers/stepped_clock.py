"""The wall clock of other processes, Python's and databases' alike, stepped while they run."""

import hashlib
import os
import struct
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tests.servers.private_server import program

SOURCE = Path(__file__).with_suffix(".c")


class SteppedClock:
    """One clock, in a file. Every process started with `environment` follows it; monotonic clocks are never changed."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        self.step_to(0.0)

    @property
    def environment(self) -> dict[str, str]:
        """Variables for the processes. What they preload besides stays."""
        others = os.environ.get("LD_PRELOAD", "")
        return {"LD_PRELOAD": f"{_library()} {others}".strip(), "STEPPED_CLOCK": str(self.file)}

    def step_to(self, seconds: float) -> None:
        """Set the clock to the machine's plus `seconds`, which may be negative. It takes effect at once."""
        # Written in place: processes have this very file mapped.
        descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(descriptor, struct.pack("=q", int(seconds * 1e9)), 0)
        finally:
            os.close(descriptor)


@cache
def _library() -> Path:
    """The shared library, compiled once for each version of its source. ServerError: there is no compiler."""
    version = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    library = Path(tempfile.gettempdir()) / f"minova-stepped-clock-{os.geteuid()}-{version}.so"
    if not library.exists():
        half = library.with_suffix(f".{os.getpid()}")
        compiler = program("gcc", "gcc")
        command = [compiler, "-Wall", "-Werror", "-O2", "-shared", "-fPIC", "-o", str(half), str(SOURCE), "-ldl"]
        subprocess.run(command, check=True, timeout=120, stdin=subprocess.DEVNULL)
        half.rename(library)
    return library
