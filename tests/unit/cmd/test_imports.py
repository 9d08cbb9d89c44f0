"""What a command does not use it does not import: imports are most of the time in which a service starts."""

import subprocess
import sys

import pytest
from alembic.script import ScriptDirectory

from minova.db import schema, upgrade

# What takes a tenth of a second or more, and is used by a few requests or by none; oslo.policy, and so the API, needs strutils.
SELDOM_USED = ("alembic", "jsonschema", "oslo_utils.strutils", "oslo_policy.policy")
LOADS = {
    "minova.cmd.api": SELDOM_USED[:2],
    "minova.cmd.compute": SELDOM_USED,
    "minova.cmd.conductor": SELDOM_USED,
    "minova.cmd.scheduler": SELDOM_USED,
    "minova.cmd.manage": (*SELDOM_USED, "sqlalchemy", "numpy", "oslo_messaging"),
}


@pytest.mark.parametrize(("module", "unused"), LOADS.items(), ids=list(LOADS))
def test_what_is_seldom_used_is_not_imported_at_the_start(module: str, unused: tuple[str, ...]) -> None:
    program = f"import sys, {module}\nprint(*[name for name in {unused!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_the_newest_revision_is_the_one_that_alembic_upgrades_to() -> None:
    assert schema.head() == ScriptDirectory.from_config(upgrade._config(None)).get_current_head()
