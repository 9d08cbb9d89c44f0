"""The C library's allocator, in processes of their own: its settings cannot be taken back."""

import subprocess
import sys

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
