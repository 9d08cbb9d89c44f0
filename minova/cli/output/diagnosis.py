"""The tables of a Diagnosis: filters in their order, rejected hosts with reasons, weights of the best hosts, build attempts."""

from collections.abc import Iterable
from typing import Any

from minova.cli.client import Json
from minova.cli.output.report import Part

# Up to this many rejected hosts are listed without a summary.
FEW = 10


def parts(diagnosis: Json) -> list[Part]:
    steps = diagnosis.get("steps", [])
    filters = [(step["name"], step["before"], step["after"], step["before"] - step["after"]) for step in steps]
    lacking = [
        (step["name"], what, count)
        for step in steps
        if step["before"] - step["after"] > FEW or not step.get("lost")
        for what, count in step.get("lacking", {}).items()
    ]
    causes = [row for step in steps for host in step.get("lost", []) for row in _causes(step["name"], host)]
    weighed = diagnosis.get("weighed", [])
    weighers = sorted({name for host in weighed for name, share in host.get("weights", {}).items() if share})
    weights = [
        (host["host"], host["node"], _rounded(host["weight"]))
        + tuple(_rounded(host.get("weights", {}).get(name)) for name in weighers)
        for host in weighed
    ]
    return [
        Part("Filters, in their order", ("Filter", "Before", "After", "Lost"), filters),
        Part("What the lost hosts lack", ("Filter", "Lack", "Hosts"), lacking),
        Part("Hosts that were lost", ("Host", "Node", "Filter", "Reason"), causes),
        Part("Weights of the best, by weigher", ("Host", "Node", "Weight", *weighers), weights),
        _conflicts(diagnosis.get("conflicts", [])),
        _attempts(diagnosis.get("attempts", [])),
    ]


def _causes(filter_name: str, host: Json) -> list[tuple[str, str, str, str]]:
    """Returns a row for each cause: a host may lack several resources. Only the first row names the host."""
    first, *others = str(host["reason"]).split("; ")
    return [(host["host"], host["node"], filter_name, first), *(("", "", "", cause) for cause in others)]


def _conflicts(conflicts: Iterable[Json]) -> Part:
    rows = [(number, conflict["host"], conflict["reason"]) for number, conflict in enumerate(conflicts, start=1)]
    return Part("Chosen before, when another request was faster", ("Time", "Host", "Reason"), rows)


def _attempts(attempts: Iterable[Json]) -> Part:
    rows = [
        (number, attempt["host"], attempt["result"] or "goes on", attempt["reason"])
        for number, attempt in enumerate(attempts, start=1)
    ]
    return Part("Attempts to build", ("Attempt", "Host", "Result", "Reason"), rows)


def place(host: Any, node: Any) -> str:
    return str(host) if host == node else f"{host} ({node})"


def _rounded(weight: float | None) -> str:
    return "" if weight is None else f"{weight + 0.0:.4g}"
