"""The rooms whose tests must notice broken lines, each with its modules and its tests, the quickest first."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Room(NamedTuple):
    """`modules`, `tests`: folders or files."""

    modules: Sequence[str]
    tests: Sequence[str]

    def files(self) -> list[Path]:
        paths = [
            path
            for name in self.modules
            for path in ([ROOT / name] if name.endswith(".py") else (ROOT / name).rglob("*.py"))
        ]
        return sorted(path for path in paths if path.name != "__init__.py" or path.stat().st_size)

    def test_files(self) -> list[Path]:
        """With the helpers that stand beside them."""
        paths = [path for name in self.tests for path in (ROOT / name).rglob("*.py")]
        return sorted({*paths, *(ROOT / name for name in self.tests if name.endswith(".py"))})

    def tests_of(self, module: str) -> list[str]:
        """The files of the module's own tests, which notice most: the others run only if these do not."""
        name = f"test_{Path(module).stem}.py"
        places = [ROOT / test for test in self.tests]
        paths = [
            path
            for place in places
            for path in ([place] if place.is_file() else place.rglob(name))
            if path.name == name
        ]
        return [str(path.relative_to(ROOT)) for path in paths]

    def near_and_others(self, module: str, tests: Iterable[str]) -> tuple[set[str], set[str]]:
        """Divides tests into the module's own and those of other modules."""
        own, given = set(self.tests_of(module)), set(tests)
        near = {test for test in given if test.partition("::")[0] in own}
        return near, given - near


def _pure(name: str, *more: str) -> Room:
    """A pure package with its unit tests, and more tests."""
    return Room([f"minova/{name}"], [f"tests/unit/{name}", *more])


ROOMS: Mapping[str, Room] = {
    "hardware": _pure("hardware"),
    "accounting": _pure("compute/accounting", "tests/unit/compute/test_laws.py"),
    "limits": _pure("placement/limits", "tests/unit/placement/candidates", "tests/functional/placement/allocations"),
    "candidates": _pure("placement/candidates", "tests/functional/placement/candidates"),
    "judge": Room(
        ["minova/placement/audit/judge.py"],
        [
            "tests/unit/placement/audit",
            "tests/unit/objects/requests/test_resource_request.py",
            "tests/functional/placement/audit",
        ],
    ),
    "decide": _pure("scheduler/decide", "tests/unit/scheduler/third_party"),
    "filters": _pure(
        "scheduler/filters",
        *("tests/unit/scheduler/test_filters.py", "tests/unit/scheduler/third_party", "tests/unit/scheduler/decide"),
    ),
    "weights": _pure(
        "scheduler/weights",
        *("tests/unit/scheduler/test_weights.py", "tests/unit/scheduler/third_party", "tests/unit/scheduler/decide"),
    ),
    "hosts": Room(
        ["minova/scheduler/hosts"],
        ["tests/unit/scheduler", "tests/functional/scheduler/test_refresh.py"],
    ),
    "request": _pure("scheduler/request"),
    "refresh": Room(
        ["minova/scheduler/refresh/decode.py", "minova/scheduler/refresh/feed_gaps.py"],
        ["tests/unit/scheduler/refresh", "tests/functional/scheduler/test_refresh.py"],
    ),
    "simulate": _pure("simulate"),
    "objects": _pure("objects"),
    "allocations": Room(
        ["minova/placement/allocations"], ["tests/functional/placement/allocations", "tests/functional/api/placement"]
    ),
    "quotas": Room(
        ["minova/db/quotas.py"],
        [
            "tests/unit/db/test_quotas.py",
            "tests/functional/conductor/test_conductor.py",
            "tests/functional/api/compute/test_quotas.py",
        ],
    ),
    "tracker": Room(
        ["minova/compute/tracker"],
        ["tests/unit/compute/tracker", "tests/functional/compute/test_tracker_laws.py", "tests/functional/compute"],
    ),
    "moves": Room(
        ["minova/conductor/moves"],
        [
            *(
                "tests/unit/conductor/moves",
                "tests/functional/conductor/moves",
                "tests/faults/test_fenced_destinations.py",
            ),
            *(
                "tests/faults/test_locked_moves.py",
                "tests/faults/test_moves.py",
                "tests/faults/test_live_migrations.py",
            ),
        ],
    ),
    "servers": Room(
        ["minova/conductor/servers"],
        [
            *("tests/unit/conductor/servers", "tests/functional/conductor/servers"),
            *(f"tests/functional/conductor/{part}" for part in ("test_conductor.py", "actions/kinds", "moves")),
            *(f"tests/functional/conductor/{part}" for part in ("notifications", "test_stolen_host_reports.py")),
            *(
                "tests/functional/conductor/network/test_interface_notifier.py",
                "tests/functional/cmd/test_machine_types.py",
            ),
        ],
    ),
}
