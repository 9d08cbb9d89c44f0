"""An ordinary user of Debian has no sbin in PATH. `tools/test` gave that PATH to root, and libvirtd of the tests found no dnsmasq."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_tools_find_programs_of_root() -> None:
    words = "source tools/steps.bash; command -v dnsmasq; command -v python3"
    done = subprocess.run(
        ["bash", "-c", words], cwd=ROOT, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=60
    )
    # The user's own places come first.
    assert done.stdout == "/usr/sbin/dnsmasq\n/usr/bin/python3\n", done.stderr
