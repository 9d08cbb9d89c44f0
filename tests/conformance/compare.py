"""What counts as the same answer. Errors by type; weights to 1e-9; which CPUs are pinned may differ, how many not."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Json = Any
CLOSE = 1e-9


def differences(scenario: Json, right: Json, found: Json) -> Iterator[str]:
    """One line for each thing that is not as it should be, with its place. Nothing after a `spoilt` request counts."""
    for key in ("filters", "weighers"):
        if right[key] != found[key]:
            yield f"{key}: {found[key]}, should be {right[key]}"
    hosts = {host["host"]: host for host in scenario["hosts"]}
    if len(right["requests"]) != len(found["requests"]):
        yield f"{len(found['requests'])} requests, should be {len(right['requests'])}"
    for theirs, ours in zip(right["requests"], found["requests"], strict=False):
        if theirs.get("spoilt"):
            break
        for text in _request(hosts, theirs, ours):
            yield f"{theirs['id']} {text}"


def kind(error: str | None) -> str | None:
    return error and error.partition(":")[0]


def _request(hosts: Mapping[str, Json], right: Json, found: Json) -> Iterator[str]:
    if kind(right["error"]) != kind(found["error"]):
        yield f"error: {found['error']}, should be {right['error']}"
        return
    if right.get("numa_constraints") != found.get("numa_constraints"):
        yield f"numa_constraints: {found.get('numa_constraints')}, should be {right.get('numa_constraints')}"
    yield from _individual(right.get("individual", {}), found.get("individual", {}))
    yield from _kinds(right.get("filter_errors", {}), found.get("filter_errors", {}))
    yield from _chain(right.get("chain", []), found.get("chain", []))
    if right.get("selected") != found.get("selected"):
        yield f"selected: {found.get('selected')}, should be {right.get('selected')}"
    yield from _weights(right.get("weights", {}), found.get("weights", {}))
    yield from _order(right.get("order", []), found.get("order", []))
    yield from _fits(hosts, right.get("numa_fit", {}), found.get("numa_fit", {}))
    if right.get("pci_ok", {}) != found.get("pci_ok", {}):
        yield f"pci_ok: {_unlike(right.get('pci_ok', {}), found.get('pci_ok', {}))}"
    claims = [{host: _claim(said) for host, said in (a.get("claims") or {}).items()} for a in (right, found)]
    if claims[0] != claims[1]:
        yield f"claims: {_unlike(*claims)}"
    yield from _consumed(hosts, right.get("consumed"), found.get("consumed"))


def _claim(said: str) -> str | None:
    if said == "ok" or said.startswith("Insufficient"):
        return said[:4]
    return kind(said)


def _unlike(right: Mapping[str, Json], found: Mapping[str, Json]) -> str:
    keys = [key for key in {**right, **found} if right.get(key) != found.get(key)]
    return "; ".join(f"{key} {found.get(key)}, should be {right.get(key)}" for key in keys)


def _individual(right: Json, found: Json) -> Iterator[str]:
    for name in {**right, **found}:
        if name not in right or name not in found:
            yield f"individual {name}: {'missing' if name in right else 'should not be'}"
        elif sorted(right[name]) != sorted(found[name]):
            wrong, lost = set(found[name]) - set(right[name]), set(right[name]) - set(found[name])
            yield f"individual {name}: passes {sorted(wrong)}, does not pass {sorted(lost)}"


def _kinds(right: Json, found: Json) -> Iterator[str]:
    if {name: kind(said) for name, said in right.items()} != {name: kind(said) for name, said in found.items()}:
        yield f"filter_errors: {found}, should be {right}"


def _chain(right: Json, found: Json) -> Iterator[str]:
    for step, other in zip(right, found, strict=False):
        if step != other:
            yield f"chain {other}, should be {step}"
            return
    if len(right) != len(found):
        yield f"chain of {len(found)} steps, should be {len(right)}"


def close(right: float, found: float) -> bool:
    return math.isclose(right, found, rel_tol=CLOSE, abs_tol=CLOSE) or (math.isnan(right) and math.isnan(found))


def _weights(right: Json, found: Json) -> Iterator[str]:
    if set(right) != set(found):
        yield f"weights of {sorted(found)}, should be {sorted(right)}"
        return
    for name, parts in right.items():
        for part, values in parts.items():
            ours = found[name][part]
            wrong = [host for host in {**values, **ours} if not _same_number(values.get(host), ours.get(host))]
            if wrong:
                message = "; ".join(f"{host} {ours.get(host)}, should be {values.get(host)}" for host in wrong[:3])
                yield f"weights {name} {part} of {len(wrong)} hosts: {message}"


def _same_number(right: Any, found: Any) -> bool:
    return right is not None and found is not None and close(right, found)


def _order(right: Json, found: Json) -> Iterator[str]:
    if [host for host, _ in right] != [host for host, _ in found]:
        yield f"order: {found}, should be {right}"
    elif not all(close(a, b) for (_, a), (_, b) in zip(right, found, strict=True)):
        yield f"order weights: {found}, should be {right}"


# -- NUMA --------------------------------------------------------------------------------------------------------------


def _fits(hosts: Mapping[str, Json], right: Json, found: Json) -> Iterator[str]:
    for name in {**right, **found}:
        theirs, ours = right.get(name), found.get(name)
        if (name in right) != (name in found) or (theirs is None) != (ours is None):
            yield f"numa_fit {name}: {ours}, should be {theirs}"
        elif isinstance(theirs, str) or isinstance(ours, str):
            if not (isinstance(theirs, str) and isinstance(ours, str) and kind(theirs) == kind(ours)):
                yield f"numa_fit {name}: {ours}, should be {theirs}"
        elif theirs is not None and _counted(theirs) != _counted(ours):
            yield f"numa_fit {name}: {ours}, should be {theirs}"


def _counted(topology: Json) -> Json:
    """Guest CPUs stay; of host CPUs, how many."""
    cells = [
        {
            **cell,
            "cpu_pinning": (sorted(cell["cpu_pinning"]), len(set(cell["cpu_pinning"].values()))),
            "cpuset_reserved": cell["cpuset_reserved"] and len(cell["cpuset_reserved"]),
        }
        for cell in topology["cells"]
    ]
    return {**topology, "cells": cells}


def _consumed(hosts: Mapping[str, Json], right: Json, found: Json) -> Iterator[str]:
    if right is None or found is None:
        if right != found:
            yield f"consumed: {found}, should be {right}"
        return
    if right["host"] != found["host"]:
        yield f"consumed by {found['host']}, should be {right['host']}"
        return
    for key in {**right, **found}:
        theirs, ours = right.get(key), found.get(key)
        if key == "numa" and theirs and ours:
            theirs, ours = (_used(hosts[right["host"]], cells) for cells in (theirs, ours))
        if key == "pci_pools" and theirs and ours:
            theirs, ours = (sorted(pools, key=repr) for pools in (theirs, ours))
        if theirs != ours:
            yield f"consumed {key}: {ours}, should be {theirs}"


def _used(host: Json, cells: Sequence[Json]) -> list[Json]:
    siblings = {cell["id"]: cell.get("siblings") or [] for cell in host["numa"]}
    lines = []
    for cell in cells:
        pinned = set(cell["pinned_cpus"])
        whole = sum(not pinned.intersection(core) for core in siblings[cell["id"]])
        lines.append({**cell, "pinned_cpus": len(pinned), "whole cores left": whole})
    return lines
