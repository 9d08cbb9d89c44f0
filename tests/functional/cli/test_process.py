"""The command as a process: what it imports, and how it ends when its reader goes away."""

import os
import subprocess
import sys

import pytest

from tests.functional.api.conftest import Cloud
from tests.functional.cli.servers import add_server
from tests.functional.cli.terminal import MINOVA

IMPORTED = """
import sys
from minova.cli.main import main
code = main(sys.argv[1:])
print("\\n".join(sorted({name.partition(".")[0] for name in sys.modules})), file=sys.stderr)
sys.exit(code)
"""
SLOW = {"sqlalchemy", "alembic", "numpy", "oslo_config", "oslo_messaging", "oslo_log", "oslo_service", "oslo_utils"}


def imported_by(*words: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", IMPORTED, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


def test_version_imports_neither_cliff_nor_urllib3() -> None:
    assert not imported_by("--version") & (SLOW | {"cliff", "stevedore", "urllib3", "cmd2", "msgspec", "http"})


@pytest.mark.parametrize("words", ["server list", "hypervisor stats", "service list", "image list"])
def test_commands_import_nothing_of_the_services(minova_url: str, words: str) -> None:
    foreign = SLOW | {"kombu", "falcon", "uvicorn", "uvloop", "libvirt", "cmd2", "yaml", "msgspec"}
    assert not imported_by("--url", minova_url, *words.split()) & foreign


def test_help_imports_no_interactive_mode() -> None:
    assert not imported_by("--help") & (SLOW | {"cmd2"})


@pytest.mark.parametrize("words", ["--help", "--version", "flavor list"])
def test_a_reader_that_goes_away_is_no_error(cloud: Cloud, minova_url: str, words: str) -> None:
    for number in range(100):
        cloud.make_flavor(f"a flavor with a long name, so that all of them fill a pipe: {number:0150}")
    process = subprocess.Popen(
        [*MINOVA, "--url", minova_url, *words.split()] if words != "--version" else [*MINOVA, words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, result = process.communicate(timeout=120)
    assert result == b""
    assert process.returncode == 141


def test_a_name_that_the_terminal_cannot_show_is_shown_escaped(cloud: Cloud, minova_url: str) -> None:
    cloud.make_flavor("h\u00e4\u4e2d")
    words = [*MINOVA, "--url", minova_url, "flavor", "list", "-f", "value", "-c", "Name"]
    done = subprocess.run(
        words, capture_output=True, timeout=60, env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    )
    assert (done.stdout, done.stderr, done.returncode) == (b"h\\xe4\\u4e2d\n", b"", 0)


def test_bug_unicode_argument_in_a_locale_of_ascii(cloud: Cloud, minova_url: str) -> None:
    add_server(cloud.with_catalogue(), "größe")
    ascii_only = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    done = subprocess.run(
        [*MINOVA, "--url", minova_url, "server", "show", "größe".encode()],
        capture_output=True,
        timeout=60,
        env={**os.environ, **ascii_only},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"gr\xf6\xdfe" in done.stdout
