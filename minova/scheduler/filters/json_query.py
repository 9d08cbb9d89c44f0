"""JsonFilter: a query in the hint `query`, such as `["and", [">=", "$free_ram_mb", 1024], ["=", "$stats.rack", "r1"]]`."""

import json
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.filters.errors import InvalidFilterInput
from minova.scheduler.filters.nova_names import OWN, SHARED, EquivalentHostsFilter, attribute
from minova.scheduler.hosts.state import HostState

Arguments = Sequence[Any]


def first_to_all(compare: Callable[[Any, Any], bool]) -> Callable[[Arguments], bool]:
    """The comparison must hold between the first argument and every other one, and there must be another one. All are
    compared, so that values that cannot be compared are always detected.
    """

    def command(values: Arguments) -> bool:
        answers = [compare(values[0], other) for other in values[1:]]
        return bool(answers) and all(answers)

    return command


COMMANDS: dict[str, Callable[[Arguments], Any]] = {
    "=": first_to_all(operator.eq),
    "<": first_to_all(operator.lt),
    ">": first_to_all(operator.gt),
    "<=": first_to_all(operator.le),
    ">=": first_to_all(operator.ge),
    "in": lambda values: len(values) > 1 and values[0] in values[1:],
    # Returns a list, as in Nova: within `and` and `or` a list with any element counts as true.
    "not": lambda values: [not value for value in values],
    "or": any,
    "and": all,
}


class JsonFilter(EquivalentHostsFilter):
    """Keeps Nova's oddities: an argument that the host does not have is dropped, and the arguments after it move up.

    Raises InvalidFilterInput, which names the query and the error.
    """

    def reads(self, spec: RequestSpec) -> Iterable[str] | None:
        query = spec.get_scheduler_hint("query")
        if not query:
            return None
        first = (name[1:].split(".")[0] for name in variables(_parsed(query)))
        return [name for name in first if name in SHARED or name in OWN]

    def refusal_reason(self, host: HostState, spec: RequestSpec) -> str | None:
        query = spec.get_scheduler_hint("query")
        if not query:
            return None
        parsed = _parsed(query)
        try:
            answer = evaluate(parsed, host)
        except Exception as error:
            raise _bad(query, error) from error
        if any(answer) if isinstance(answer, list) else answer:
            return None
        return f"query {query} with {', '.join(_values(parsed, host)) or 'no variable'}"


def evaluate(query: Any, host: HostState) -> Any:
    if not query:
        return True
    command = COMMANDS[query[0]]
    values = (_value(argument, host) for argument in query[1:])
    return command([value for value in values if value is not None])


def _value(argument: Any, host: HostState) -> Any:
    if isinstance(argument, list):
        return evaluate(argument, host)
    if not isinstance(argument, str):
        return argument
    return look_up(argument, host) if argument.startswith("$") else argument or None


def look_up(variable: str, host: HostState) -> Any:
    """Resolves `$stats.rack`: an attribute of the host, then keys of dictionaries. Returns None if there is no such
    value.
    """
    first, *keys = variable[1:].split(".")
    value = attribute(host, first)
    for key in keys:
        value = None if value is None else value.get(key)
    return value


def variables(query: Any) -> Iterator[str]:
    """Yields the variables that the query reads, as written."""
    if isinstance(query, list):
        for part in query:
            yield from variables(part)
    elif isinstance(query, str) and query.startswith("$"):
        yield query


def _parsed(query: Any) -> Any:
    try:
        return _loaded(query) if isinstance(query, str) else json.loads(query)
    except (TypeError, ValueError) as error:
        raise _bad(query, error) from error


# Used again for each host.
_loaded = lru_cache(maxsize=100)(json.loads)


def _bad(query: Any, error: Exception) -> InvalidFilterInput:
    what = f"none of the commands {' '.join(COMMANDS)}" if isinstance(error, KeyError) else type(error).__name__
    return InvalidFilterInput(f"Scheduler hint query: {query!r}: {what}", error)


def _values(query: Any, host: HostState) -> list[str]:
    values = {name: look_up(name, host) for name in variables(query)}
    return [f"{name} {'unknown' if value is None else repr(value)}" for name, value in values.items()]
