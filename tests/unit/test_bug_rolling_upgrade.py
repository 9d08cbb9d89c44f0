"""Services of the last release run beside those of this one: messages, stored structs and tables only grow.

`tests/released/d8f8a1a.json` is what the last release has (tests/released/describe.py wrote it); after a release it is made anew.
"""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from minova import errors
from minova.contracts.base import Role, methods_of, numbers
from minova.contracts.compute import ComputeApi
from minova.contracts.conductor import ConductorApi
from minova.contracts.scheduler import SchedulerApi
from minova.messaging.rpc_levels import RELEASED
from minova.objects.actions.table import ACTIONS
from minova.retry import retry_call
from tests.released.describe import contracts

OLD: dict[str, Any] = json.loads((Path(__file__).parents[1] / "released" / "d8f8a1a.json").read_text())
# Values that no service writes before every service knows them: `conductor.servers.actions.requests` asks for the levels first.
ONCE_ALL_KNOW = {step.value for action in ACTIONS for step in action.progress}
# {method: argument}: the method answers more than before only to a caller that gives this new argument. Its functional test shows that.
ANSWERS_TO_ARGUMENTS = {"conductor.report_power_states": "after"}
# The last release has these fields and leaves them empty: it makes servers without networks, disks and files of their own. It reads
# a struct as the dictionary that it expects there.
NEVER_FILLED = {"requested_networks", "block_device_mapping", "injected_files"}
# New fields in messages of the API that an older conductor may drop. It derives `needs`. Records of images have neither kernel nor
# ramdisk: the API finds these when it makes a server, and only a build needs them.
MAY_BE_LOST = {"needs"}
IMAGE = {"service", "reserved", "kernel", "ramdisk"}
MAY_BE_LOST_BY = {
    "create_image": IMAGE,
    "update_image": IMAGE,
    "preview_servers": IMAGE,
    "capacity": IMAGE,
    "create_servers": {"service", "reserved"},
}
CONTRACTS: tuple[Any, ...] = (ConductorApi, ComputeApi, SchedulerApi)


def incompatible(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What services of the two would not understand of each other, with its place. Names of structs do not matter."""
    return list(_Comparison(old, new).all())


class _Comparison:
    def __init__(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        self._old, self._new = old, new
        self._seen: set[tuple[str, str]] = set()

    def all(self) -> Iterator[str]:
        for topic, contract in self._old["contracts"].items():
            methods = self._new["contracts"][topic]["methods"]
            for name, method in contract["methods"].items():
                yield from self._method(f"{topic}.{name}", method, methods.get(name))
        for table, columns in self._old["columns"].items():
            yield from self._table(table, columns, self._new["columns"].get(table))

    def _method(self, place: str, old: Any, new: Any) -> Iterator[str]:
        if new is None or old["kind"] != new["kind"]:
            yield f"{place} is gone, or of another kind"
            return
        yield from self._fields(place, old["arguments"], new["arguments"])
        answers = [new["answer"]]
        if ANSWERS_TO_ARGUMENTS.get(place) in new["arguments"].keys() - old["arguments"].keys():
            answers = [answer for answer in new["answer"]["any of"] if answer == old["answer"]] or answers
        yield from self._types(f"answer of {place}", old["answer"], answers[0])

    def _table(self, table: str, old: Any, new: Any) -> Iterator[str]:
        if new is None:
            yield f"table {table} is gone"
            return
        for name, column in old.items():
            place = f"{table}.{name}"
            if name not in new or new[name]["type"] != column["type"]:
                yield f"{place} is gone, or of another type"
                continue
            if column["struct"] is not None:
                yield from self._types(place, column["struct"], new[name]["struct"])
        yield from (
            f"{table}.{name}: the last release inserts rows without it"
            for name, column in new.items()
            if column["required"] and not old.get(name, {"required": False})["required"]
        )

    def _fields(self, place: str, old: Any, new: Any) -> Iterator[str]:
        for name, field in old.items():
            if name not in new:
                yield f"{place}: {name} is gone"
                continue
            if new[name]["required"] and not field["required"]:
                yield f"{place}: {name} must be given now"
            if name not in NEVER_FILLED:
                yield from self._types(f"{place}: {name}", field["type"], new[name]["type"])
        for name in new.keys() - old.keys():
            if new[name]["required"]:
                yield f"{place}: {name} is new and has no default"

    def _types(self, place: str, old: Any, new: Any) -> Iterator[str]:
        if isinstance(old, str) or isinstance(new, str) or old.keys() != new.keys():
            if old != new:
                yield f"{place}: {old} became {new}"
            return
        for key, inner in old.items():
            yield from self._parts(place, key, inner, new[key])

    def _parts(self, place: str, key: str, old: Any, new: Any) -> Iterator[str]:
        if key == "struct":
            if (old, new) not in self._seen:
                self._seen.add((old, new))
                yield from self._fields(f"{place} ({new})", self._old["structs"][old], self._new["structs"][new])
        elif key == "values of" or not isinstance(old, list):
            if key == "values of" and not set(old) <= set(new) <= {*old, *ONCE_ALL_KNOW}:
                yield f"{place}: one of {old} became one of {new}"
            elif key != "values of":
                yield from self._types(place, old, new)
        elif len(old) != len(new):
            yield f"{place}: {old} became {new}"
        else:
            for each, other in zip(old, new, strict=True):
                yield from self._types(place, each, other)


def test_this_release_and_the_last_one_understand_each_other() -> None:
    assert incompatible(OLD, contracts()) == []


@pytest.mark.parametrize("described", CONTRACTS, ids=lambda each: each.TOPIC)
def test_what_the_last_release_serves_is_sent_with_a_version_that_it_accepts(described: Any) -> None:
    released = OLD["contracts"][described.TOPIC]
    assert released["version"] == RELEASED[-1][described.TOPIC]
    for name, method in methods_of(described).items():
        arguments = released["methods"].get(name, {"arguments": {}})["arguments"]
        version = method.request(dict.fromkeys(arguments, object())).version
        served = numbers(version) <= numbers(released["version"])
        assert served == (name in released["methods"]), f"{name} is of {version}"


@pytest.mark.parametrize("described", CONTRACTS, ids=lambda each: each.TOPIC)
def test_an_argument_that_the_last_release_lacks_is_of_a_later_version(described: Any) -> None:
    released = OLD["contracts"][described.TOPIC]
    for name, method in methods_of(described).items():
        if name not in released["methods"]:
            continue
        released_names = released["methods"][name]["arguments"].keys()
        added = {
            each
            for each in method.arguments.kind.__struct_fields__
            if method.encoded.get(each, each) not in released_names
        }
        late = {each for each in added if numbers(method.added.get(each, "1.0")) <= numbers(released["version"])}
        assert late == set(), f"{described.TOPIC}.{name}"


def _new_fields(old: Any, new: dict[str, Any], structs: dict[str, Any], place: str) -> Iterator[str]:
    """Paths of the fields that the structs inside of a type have got since the last release."""
    if isinstance(old, str) or isinstance(new, str):
        return
    if "struct" in old and "struct" in new:
        before, after = OLD["structs"][old["struct"]], structs[new["struct"]]
        yield from (f"{place}.{name}" for name in after.keys() - before.keys())
        for name in before.keys() & after.keys():
            yield from _new_fields(before[name]["type"], after[name]["type"], structs, f"{place}.{name}")
    for each, other in zip(old.get("any of", ()), new.get("any of", ()), strict=False):
        yield from _new_fields(each, other, structs, place)


def test_bug_a_field_that_an_older_conductor_would_drop_in_silence_is_of_a_later_version() -> None:
    """Users would get 202, and a server without their tags."""
    released, now = OLD["contracts"]["conductor"]["methods"], contracts()
    for name, method in methods_of(ConductorApi).items():
        if name not in released or Role.API not in method.audience.roles:
            continue
        arguments = now["contracts"]["conductor"]["methods"][name]["arguments"]
        fields = {
            path
            for argument, before in released[name]["arguments"].items()
            for path in _new_fields(before["type"], arguments[argument]["type"], now["structs"], argument)
        }
        may_be_lost = MAY_BE_LOST | MAY_BE_LOST_BY.get(name, set())
        assert {
            path for path in fields - method.fields.keys() if path.rpartition(".")[2] not in may_be_lost
        } == set(), name
        level = OLD["contracts"]["conductor"]["version"]
        assert all(numbers(since) > numbers(level) for since in method.fields.values()), name


def test_a_service_that_is_too_old_is_not_asked_again_because_there_is_another_way() -> None:
    calls = []

    def ask() -> None:
        calls.append(1)
        raise errors.PeerTooOld("claim_instances needs conductor 1.6")

    with pytest.raises(errors.PeerTooOld):
        retry_call("claim_instances", ask, seconds=600.0, wait=lambda seconds: False)
    assert len(calls) == 1


def _break(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    changed = copy.deepcopy(OLD)
    change(changed)
    return changed


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda new: new["contracts"]["compute"]["methods"].pop("audit_node"), "compute.audit_node is gone"),
        (
            lambda new: new["contracts"]["compute"]["methods"]["audit_node"]["arguments"].pop("node"),
            "compute.audit_node: node is gone",
        ),
        (
            lambda new: new["contracts"]["conductor"]["methods"]["heartbeat"]["arguments"]["down_reason"].update(
                required=True
            ),
            "conductor.heartbeat: down_reason must be given now",
        ),
        (
            lambda new: new["structs"]["Service"].update(colour={"required": True, "type": "str"}),
            "colour is new and has no default",
        ),
        (lambda new: new["structs"]["Flavor"]["vcpus"].update(type="str"), "vcpus: int became str"),
        (lambda new: new["columns"]["services"].pop("host"), "services.host is gone"),
        (
            lambda new: new["columns"]["services"].update(colour={"required": True, "type": "String", "struct": None}),
            "services.colour: the last release inserts rows without it",
        ),
    ],
    ids=["method gone", "argument gone", "argument required", "field required", "field's type", "column", "new column"],
)
def test_a_change_that_breaks_the_upgrade_is_found(change: Callable[[dict[str, Any]], object], told: str) -> None:
    assert any(told in line for line in incompatible(OLD, _break(change)))
