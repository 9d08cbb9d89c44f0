"""A conductor died of a segmentation fault in its first burst: a thread decoded a type that another was still building."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import inspect

from minova import codecs
from minova.api.compute.definition import ComputeDefinition
from minova.api.image.definition import ImageDefinition
from minova.api.network.definition import NetworkDefinition
from minova.conductor.compute_messages import BuildPlan
from minova.contracts.base import methods_of
from minova.contracts.compute import ComputeApi
from minova.contracts.conductor import ConductorApi
from minova.contracts.scheduler import SchedulerApi
from minova.db.models import Base
from minova.db.models.types import StructType
from minova.objects.requests.build_extras import BuildExtras

PROCESSES = 100
EXECUTABLES = ("api", "conductor", "scheduler", "compute", "standalone")


@pytest.mark.nightly("a hundred processes; the tests below show that each type is prepared before there are threads")
@pytest.mark.timeout(400)
def test_no_process_dies_whose_threads_decode_every_type_at_first_use() -> None:
    command = [sys.executable, "-m", "tests.functional.first_decode", str(PROCESSES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=390)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ends"] == {"0": PROCESSES}, done.stderr


def structs_in(kind: inspect.Type, found: set[Any]) -> None:
    """Add each struct inside of `kind`."""
    if isinstance(kind, inspect.StructType):
        if kind.cls in found:
            return
        found.add(kind.cls)
    for name in getattr(kind, "__struct_fields__", ()):
        value = getattr(kind, name)
        for each in value if isinstance(value, tuple) else (value,):
            inner = each.type if isinstance(each, inspect.Field) else each
            if isinstance(inner, inspect.Type):
                structs_in(inner, found)


def used() -> Iterator[tuple[str, Any]]:
    """Where a type is read, and the type."""
    for contract in (ConductorApi, ComputeApi, SchedulerApi):
        for method in methods_of(contract).values():
            yield f"{contract.TOPIC}.{method.name}", method.arguments.kind
            yield f"answer of {contract.TOPIC}.{method.name}", method.answer.kind
    for table in Base.metadata.tables.values():
        for column in table.columns:
            if isinstance(column.type, StructType):
                yield f"{table.name}.{column.name}", column.type.struct
    for definition in (ComputeDefinition, ImageDefinition, NetworkDefinition):
        for route in definition.routes:
            for kind in (route.query, route.body):
                if kind is not None:
                    yield f"{definition.service_type} {route.method} {route.path}", kind
    yield "payload of a build task", BuildPlan
    yield "what a request carries", BuildExtras


def test_every_type_on_the_wire_in_a_column_or_in_a_body_is_prepared() -> None:
    prepared: set[Any] = set()
    for kind in codecs.prepared():
        structs_in(inspect.type_info(kind), prepared)
    prepared_types = {*codecs.prepared()}
    used_types = list(used())
    assert len(used_types) > 100
    assert [place for place, kind in used_types if kind not in prepared_types] == []
    missing = set()
    for place, kind in used_types:
        inside: set[Any] = set()
        structs_in(inspect.type_info(kind), inside)
        missing |= {f"{place}: {each.__name__}" for each in inside - prepared}
    assert missing == set()


@pytest.mark.parametrize("executable", EXECUTABLES)
def test_an_executable_has_prepared_its_contracts_once_it_is_imported(executable: str) -> None:
    script = (
        f"import minova.cmd.{executable}\n"
        "from minova import codecs\n"
        "print([getattr(kind, '__name__', str(kind)) for kind in codecs.prepared()])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "'ConductorApi.heartbeat'" in done.stdout
    assert "'RequestContext'" in done.stdout


CRASH = """
import ctypes, sys, threading
from minova.cmd.startup import launch
from minova.cmd import manage
threading.Thread(target=threading.Event().wait, name="bystander", daemon=True).start()
{module}.{function} = lambda *args, **more: ctypes.string_at(0)
{call}
"""


@pytest.mark.parametrize(
    ("module", "function", "call"),
    [
        ("launch", "log.setup", "launch.launch('minova-api', None)"),
        ("manage", "run", "manage.main()"),
    ],
)
def test_a_crash_of_an_executable_leaves_the_stacks_of_its_threads(module: str, function: str, call: str) -> None:
    script = CRASH.format(module=module, function=function, call=call)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == -11
    assert "Fatal Python error: Segmentation fault" in done.stderr
    assert "threading.py" in done.stderr


def test_a_crash_of_the_command_leaves_its_stack() -> None:
    script = "import ctypes\nfrom minova.cli import main\nmain._run = lambda arguments: ctypes.string_at(0)\nmain.main(['x'])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert "Fatal Python error: Segmentation fault" in done.stderr
