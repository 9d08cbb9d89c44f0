"""What a program that makes a disk may do: nothing but write its file, within limits."""

import os
import sys
from pathlib import Path

import pytest
from oslo_utils import units

from minova.errors import DiskFull, HypervisorError, InvalidConfiguration
from minova.virt import programs
from minova.virt.programs import NOBODY, RunLimits, write_with

REPORT = """\
import os, resource, sys
names = ("CPU", "AS", "FSIZE", "NOFILE", "CORE")
limits = [resource.getrlimit(getattr(resource, "RLIMIT_" + name))[0] for name in names]
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
rights = [status[name].strip() for name in ("CapEff", "CapBnd", "NoNewPrivs")]
print(os.getuid(), os.getgid(), os.getgroups(), limits, rights, sorted(os.environ), file=open(sys.argv[1], "w"))
"""


def told(path: Path, program: str, limits: RunLimits | None = None) -> str:
    write_with(path, [sys.executable, "-I", "-c", program], limits or RunLimits())
    return path.read_text()


def test_a_program_of_root_runs_as_nobody_with_limits_and_nothing_of_the_services_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINOVA_SECRET", "x")
    limits = RunLimits(cpu=7, memory=512 * units.Mi, file_size=3 * units.Mi, open_files=33)
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o700)
    words = told(folder / "file", REPORT, limits)
    assert f"[7, {512 * units.Mi}, {3 * units.Mi}, 33, 0]" in words
    assert "MINOVA_SECRET" not in words
    # Tests of this kind run as root; the service of a distribution may be another user, who has nothing to lose.
    assert words.startswith(f"{NOBODY} {NOBODY} [] ")
    assert f"['{0:016x}', '{0:016x}', '1']" in words
    status = (folder / "file").stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (0, 0, 0o600)


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("open('/etc/shadow')", "Permission denied"),
        ("open({secret!r})", "Permission denied"),
        ("import os; os.kill(os.getppid(), 0); os.setuid(0)", "not permitted"),
        ("while True: pass", "exit code|Killed"),
        ("b = bytearray(1 << 30)", "MemoryError"),
        ("f = open(sys.argv[1], 'wb'); f.truncate(9 << 20)", "File too large|exit code"),
        ("[open('/dev/null') for _ in iter(int, 1)]; print(x)", "Too many open files|exit code"),
    ],
)
def test_what_is_beyond_its_limits_fails(tmp_path: Path, program: str, why: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    secret.chmod(0o600)
    text = f"import sys; kept = []\n{program.format(secret=str(secret))}"
    if "for _ in" in program:
        text = "import sys; kept = []\nwhile True: kept.append(open('/dev/null'))"
    with pytest.raises(HypervisorError, match=why):
        told(tmp_path / "file", text, RunLimits(cpu=1, memory=512 * units.Mi, file_size=8 * units.Mi, open_files=32))


def test_a_full_disk_has_its_own_error(tmp_path: Path) -> None:
    program = "import sys; sys.exit('qemu-img: No space left on device')"
    with pytest.raises(DiskFull, match="No space left"):
        told(tmp_path / "file", program)


def test_a_complaint_is_bounded(tmp_path: Path) -> None:
    with pytest.raises(HypervisorError) as caught:
        told(tmp_path / "file", "import sys; sys.exit('x' * 1000000)")
    assert len(str(caught.value)) < 1100


def test_a_missing_program_is_named_at_the_start() -> None:
    with pytest.raises(InvalidConfiguration, match=r"no-such-thing is not installed \(Debian package none\)"):
        programs.require({"no-such-thing": "none"})


def test_only_one_module_starts_programs_on_disks() -> None:
    """A developer who adds a qemu-img finds this, and uses the limits. Others: the server of exports, which runs as long as
    a move and has a process of its own to end it, programs of the network, and `uptime`.
    """
    top = Path(programs.__file__).parent.parent
    starters = [
        str(path.relative_to(top))
        for path in sorted(top.rglob("*.py"))
        if {"virt", "compute", "image"} & set(path.relative_to(top).parts) and "subprocess." in path.read_text()
    ]
    others = ["virt/libvirt/migration/export_server.py", "virt/namespaces/kernel.py"]
    assert starters == [*others, "virt/programs.py", "virt/uptime.py"]
    assert os.fspath(top)
