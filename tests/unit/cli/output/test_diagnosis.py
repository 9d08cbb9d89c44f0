"""How a Diagnosis looks on a terminal."""

from typing import Any

from minova.cli.commands.server import capacity
from minova.cli.commands.server.create.command import dry_run_headline
from minova.cli.output import diagnosis as decision
from minova.cli.output.servers import fault_text

STEP = {"name": "RamFilter", "before": 3, "after": 1, "lost": [], "lacking": {"not enough free memory": 2}}


def titles(diagnosis: dict[str, Any]) -> list[str]:
    return [part.title for part in decision.parts(diagnosis) if part.rows]


def test_who_sees_no_names_sees_what_was_lacking() -> None:
    hidden = {"host": "", "node": "", "reason": ""}
    attempt = {"host": "", "result": None, "reason": ""}
    parts = {
        part.title: part.rows
        for part in decision.parts({"steps": [STEP], "conflicts": [hidden], "attempts": [attempt]})
    }
    assert parts["Filters, in their order"] == [("RamFilter", 3, 1, 2)]
    assert parts["What the lost hosts lack"] == [("RamFilter", "not enough free memory", 2)]
    assert parts["Chosen before, when another request was faster"] == [(1, "", "")]
    assert parts["Attempts to build"] == [(1, "", "goes on", "")]


def test_few_lost_hosts_speak_for_themselves() -> None:
    lost = [{"host": f"h{number}", "node": "n", "reason": "r"} for number in range(2)]
    assert titles({"steps": [{**STEP, "lost": lost}]}) == ["Filters, in their order", "Hosts that were lost"]


def test_each_cause_has_a_line() -> None:
    lost = [{"host": "h1", "node": "n", "reason": "free VCPU 1 < 2; free MEMORY_MB 3 < 4"}]
    (_, part) = [part for part in decision.parts({"steps": [{**STEP, "lost": lost}]}) if part.rows]
    assert part.rows == [("h1", "n", "RamFilter", "free VCPU 1 < 2"), ("", "", "", "free MEMORY_MB 3 < 4")]


def test_message_of_a_fault_is_shown_once() -> None:
    def shown(details: str | None) -> str | None:
        return fault_text({"fault": {"message": "No host.", "details": details}})

    assert shown(None) == shown("NoValidHost: No host.") == "No host."
    assert shown("h1: disk broken") == "No host. (h1: disk broken)"


def test_weighers_that_say_nothing_are_left_out() -> None:
    weighed = [
        {"host": "h1", "node": "n1", "weight": 2.0, "weights": {"RAM": 1.0, "IO": -0.0, "CPU": 1.0}},
        {"host": "h2", "node": "n2", "weight": 1 / 3, "weights": {"RAM": 1 / 3, "IO": 0.0, "CPU": -0.0}},
    ]
    part = next(part for part in decision.parts({"weighed": weighed}) if part.rows)
    assert part.columns == ("Host", "Node", "Weight", "CPU", "RAM")
    assert part.rows == [("h1", "n1", "2", "1", "1"), ("h2", "n2", "0.3333", "0", "0.3333")]


def test_the_first_line_of_a_dry_run() -> None:
    def line(count: int, *selected: tuple[str, str], fits: bool = True) -> str:
        answer = {"count": count, "fits": fits, "reason": "No host.", "diagnosis": {"selected": selected}}
        return dry_run_headline(answer)

    assert line(1, ("h1", "h1")) == "It would fit, on h1."
    assert line(3, ("h1", "n"), ("h2", "h2"), ("h1", "n")) == "All 3 would fit, on h1 (n): 2, h2: 1."
    assert line(1) == "It would fit."
    assert line(1, fits=False) == "It would not fit. No host."
    assert line(3, fits=False) == "Not all 3 would fit. No host."


def test_the_first_line_of_capacity() -> None:
    whole = {"total": 3, "error": None, "complete": True, "one_host": False, "hosts": [{"count": 3}, {"count": 0}]}
    say = capacity.headline
    assert say("m1", whole) == "3 more of flavor m1 fit, on 1 of 2 hosts."
    assert say("m1", {**whole, "complete": False}) == "At least 3 more of flavor m1 fit, on 1 of 2 hosts."
    assert say("m1", {**whole, "one_host": True}).endswith("Their server group keeps them on one host.")
    assert say("m1", {**whole, "error": "None for you."}) == "No server of flavor m1 fits. None for you."
