"""The man pages are what tools/manpages writes, and man reads them."""

import re
import runpy
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    text_by_page: dict[str, str] = runpy.run_path(str(ROOT / "tools" / "manpages"))["pages"]()
    return text_by_page


def test_pages_are_current(pages: dict[str, str]) -> None:
    old = [name for name, text in pages.items() if (ROOT / "man" / name).read_text() != text]
    assert old == [], "run tools/manpages, and commit man/"


def test_every_executable_has_a_page_and_the_wheel_has_all() -> None:
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    names = re.findall(r"^(minova\S*) =", config["options.entry_points"]["console_scripts"], re.MULTILINE)
    there = {path.relative_to(ROOT) for path in (ROOT / "man").glob("*/*")}
    assert {path.stem for path in there} == set(names)
    data = config["options.data_files"]
    assert {*data["share/man/man1"].split(), *data["share/man/man8"].split()} == {str(path) for path in there}


def test_pages_have_options_and_commands(pages: dict[str, str]) -> None:
    assert r"\fB\-\-os\-cloud\fP" in pages["man1/minova.1"]
    assert r"\fBserver create\fP" in pages["man1/minova.1"]
    assert r"\fBplacement audit\fP" in pages["man8/minova-manage.8"]
    assert r"\fB\-\-state\-dir\fP" in pages["man8/minova-standalone.8"]
    services = [text for name, text in pages.items() if name.startswith("man8/") and "network-helper" not in name]
    assert all(r"\-\-config\-file" in text for text in services)


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_has_nothing_to_say_about_them() -> None:
    for path in (ROOT / "man").glob("*/*"):
        command = ["groff", "-man", "-ww", "-Tutf8", "-z", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, done.stderr) == (0, ""), path
