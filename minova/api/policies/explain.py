"""Explains why a policy permits a request or not, for `minova-manage policy check`."""

from collections.abc import Iterator
from typing import Any

from oslo_policy import policy as oslo

from minova.api.policies.enforcer import Caller, LoadedRules, Target, children_of


def explain(loaded: LoadedRules, rule: str, caller: Caller, target: Target) -> Iterator[str]:
    """Yields a line for each part of the rule, with its result, indented below the part that contains it."""
    yield from _lines(loaded, loaded.enforcer.rules[rule], caller, target, 1)


def _lines(loaded: LoadedRules, check: Any, caller: Caller, target: Target, depth: int) -> Iterator[str]:
    holds = "yes" if loaded.evaluate(check, caller, target) else "no "
    yield f"{'  ' * depth}{holds} {_words_of(check)}{_values(check, caller, target)}"
    parts = children_of(check)
    if isinstance(check, oslo.RuleCheck):
        parts = [loaded.enforcer.rules[check.match]]
    for part in parts:
        yield from _lines(loaded, part, caller, target, depth + 1)


def _words_of(check: Any) -> str:
    if isinstance(check, oslo.AndCheck):
        return "all of:"
    if isinstance(check, oslo.OrCheck):
        return "one of:"
    return "not:" if isinstance(check, oslo.NotCheck) else str(check)


def _values(check: Any, caller: Caller, target: Target) -> str:
    """Returns the values that the check compares."""
    if not isinstance(check, oslo.Check) or isinstance(check, oslo.RuleCheck):
        return ""
    if check.kind == "role":
        return f"  (roles: {', '.join(caller.roles) or 'none'})"
    target_values = {"project_id": target.project_id, "user_id": target.user_id, "visibility": target.visibility}
    name = check.match.removeprefix("%(").removesuffix(")s")
    own = getattr(caller, check.kind, None)
    if own is None or name not in target_values:
        return ""
    return f"  (the caller's is {own or 'empty'}, the target's {target_values[name] or 'empty'})"
