"""The compute has no database: what it loads must not bring one, also not indirectly."""

import subprocess
import sys

import pytest

FORBIDDEN = ("sqlalchemy", "numpy", "alembic", "minova.db", "minova.conductor", "minova.scheduler", "minova.placement")
LOADS = [
    ("minova.compute.manager", "minova.virt"),
    ("minova.messaging.rpc", "minova.service", "minova.compute.manager", "minova.virt"),
    ("minova.cmd.compute",),
]


@pytest.mark.parametrize("modules", LOADS, ids=lambda modules: modules[-1] if len(modules) < 4 else "with RPC")
def test_a_compute_loads_no_database(modules: tuple[str, ...]) -> None:
    program = (
        f"import sys, {', '.join(modules)}\n"
        f"print(*[name for name in {FORBIDDEN!r} if sys.modules.get(name) is not None])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
