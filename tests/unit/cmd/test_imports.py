"""What a command does not use it does not import: imports are most of the time in which a service starts."""

import subprocess
import sys
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory

from minova.db import schema, upgrade

# What takes a tenth of a second or more, and is used by a few requests or by none; oslo.policy, and so the API, needs strutils.
SELDOM_USED = ("alembic", "jsonschema", "oslo_utils.strutils", "oslo_policy.policy")
# What only services beside the database or with an API use; hosts need not have it installed.
NOT_OF_COMPUTES = ("falcon", "bcrypt", "sqlalchemy", "uvicorn", "keystonemiddleware")
COMPOSED_COMPUTE = """
import sys, threading
from minova import conf as configuration
from minova.cmd import compute
conf = configuration.load(["--config-file", sys.argv[1]], "minova-compute")
compute.compose_process(conf, threading.Event())
print(*sys.modules)
"""
LOADS = {
    "minova.cmd.api": SELDOM_USED[:2],
    "minova.cmd.compute": (*SELDOM_USED, *NOT_OF_COMPUTES),
    "minova.cmd.conductor": SELDOM_USED,
    "minova.cmd.scheduler": SELDOM_USED,
    "minova.cmd.manage": (*SELDOM_USED, "sqlalchemy", "numpy", "oslo_messaging"),
}


@pytest.mark.parametrize(("module", "unused"), LOADS.items(), ids=list(LOADS))
def test_what_is_seldom_used_is_not_imported_at_the_start(module: str, unused: tuple[str, ...]) -> None:
    program = f"import sys, {module}\nprint(*[name for name in {unused!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_the_newest_revision_is_the_one_that_alembic_upgrades_to() -> None:
    assert schema.head() == ScriptDirectory.from_config(upgrade._config(None)).get_current_head()


def test_a_composed_compute_has_imported_nothing_of_controllers(tmp_path: Path) -> None:
    file = tmp_path / "minova.conf"
    file.write_text(
        f"[DEFAULT]\nstate_path = {tmp_path}\ncompute_driver = fake\ntransport_url = rabbit://127.0.0.1:1/\nhost = h\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", COMPOSED_COMPUTE, str(file)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert not {"jsonschema", "alembic", *NOT_OF_COMPUTES} & {name.partition(".")[0] for name in done.stdout.split()}
