"""`minova-manage broker permissions` printed eventlet's warning among the commands that operators pass to a shell."""

import re
import subprocess
import sys
from pathlib import Path

import minova

FROM_OSLO = re.compile(r"^(?:import|from) oslo_(?:messaging|service)\b", re.MULTILINE)


def test_threads_are_chosen_before_libraries_that_would_choose_eventlet() -> None:
    for path in Path(minova.__file__).parent.rglob("*.py"):
        before, *imported = FROM_OSLO.split(path.read_text(), maxsplit=1)
        assert not imported or "\nthreads.use_native()\n" in before, path


def test_bug_broker_command_warned_of_eventlet(tmp_path: Path) -> None:
    conf = tmp_path / "minova.conf"
    conf.write_text(
        f"[DEFAULT]\nhost = ctl1\nstate_path = {tmp_path}\ntransport_url = rabbit://minova:SECRET@broker:5672/\n"
    )
    words = ["--config-file", str(conf), "broker", "permissions", "hv1"]
    command = [sys.executable, "-c", "from minova.cmd import manage; manage.main()", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stderr) == (0, "")
