"""The C library's allocator, in processes of their own: its settings cannot be taken back."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from minova.malloc import keep_memory

ARENAS = """
import ctypes, sys, threading
from minova.malloc import use_one_arena
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
if not hasattr(libc, "malloc_info"):
    print("none")
    sys.exit()
if sys.argv[1] == "one":
    assert use_one_arena()
begin = threading.Barrier(4)
def work():
    begin.wait()
    kept = [bytes(2000) for _ in range(1000)]
    begin.wait()
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
file = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, file)
libc.fflush(file)
"""


def heaps(word: str) -> int:
    done = subprocess.run([sys.executable, "-c", ARENAS, word], capture_output=True, text=True, check=True)
    if done.stdout == "none\n":
        pytest.skip("this C library has no malloc_info")
    return done.stdout.count("<heap nr=")


def test_threads_share_one_arena() -> None:
    assert heaps("many") > 1
    assert heaps("one") == 1


def test_the_c_library_can_be_asked_to_keep_memory() -> None:
    assert keep_memory() in (True, False)


# Bytes that count as used after all threads have freed what they had.
FREED_BY_THREADS = """
import ctypes, sys, threading
from minova.malloc import use_one_arena
libc = ctypes.CDLL(None)
if not hasattr(libc, "mallinfo2"):
    print("none")
    sys.exit()
class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
        ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]
libc.mallinfo2.restype = Info
use_one_arena()
freed, end = threading.Barrier(41), threading.Event()
def work():
    kept = [bytes(size) for size in range(600, 1000, 16) for _ in range(7)]
    del kept
    freed.wait()
    end.wait()
before = libc.mallinfo2().uordblks
for _ in range(40):
    threading.Thread(target=work).start()
freed.wait()
print(libc.mallinfo2().uordblks - before)
end.set()
"""
ROOT = Path(__file__).parents[2]
UNITS = ROOT / "etc/systemd"
SERVICES = sorted({each.stem for each in UNITS.glob("*.service")} - {"minova-network-helper"})


def kept_by_threads(variables: dict[str, str]) -> int:
    done = subprocess.run(
        [sys.executable, "-c", FREED_BY_THREADS],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    if done.stdout == "none\n":
        pytest.skip("this C library has no mallinfo2")
    return int(done.stdout)


def test_bug_each_thread_of_a_service_kept_freed_memory() -> None:
    """minova-standalone with 140 threads grew for an hour of creates and deletes until all were full."""
    lines = [(UNITS / f"{service}.service").read_text().splitlines() for service in SERVICES]
    environments = {next(line for line in of_unit if line.startswith("Environment=")) for of_unit in lines}
    (environment,) = environments
    assert f" {environment.removeprefix('Environment=')}\n" in (ROOT / "packaging/Containerfile").read_text()
    name, _, value = environment.removeprefix("Environment=").partition("=")
    assert kept_by_threads({name: ""}) > 2_000_000
    assert kept_by_threads({name: value}) < 500_000


# Resident MB: with all blocks, with each hundredth, and when the library was asked.
FREED_BETWEEN = """
import sys
from pathlib import Path
from minova import malloc
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20
if sys.argv[1] == "keep":
    malloc.keep_memory()
blocks = [bytes(bytearray(2000)) for _ in range(30_000)]
sizes = [resident()]
blocks = blocks[::100]
sizes.append(resident())
malloc.return_freed_memory()
print(*sizes, resident())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="this C library gives nothing back")
@pytest.mark.parametrize("word", ["return", "keep"])
def test_freed_blocks_between_others_are_given_back_unless_the_process_keeps_memory(word: str) -> None:
    done = subprocess.run([sys.executable, "-c", FREED_BETWEEN, word], capture_output=True, text=True, check=True)
    full, freed, last = map(int, done.stdout.split())
    assert full - freed < 20, "the C library has returned pages by itself"
    assert (freed - last > 30) is (word == "return")
