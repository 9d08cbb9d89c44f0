"""The soak finds tracebacks in logs as oslo.log writes them, and those that Python writes by itself."""

from tests.soak.logs import tracebacks, unexpected

PREFIX = "2026-11-26 16:12:01.154 10210 ERROR minova.service "
LOGGED = f"""2026-11-26 16:12:01.100 10210 INFO minova.service [None req-1 - - - - - -] minova-conductor started
2026-11-26 16:12:01.154 10210 ERROR minova.service [None req-1 - - - - - -] Error during beat: no
{PREFIX}Traceback (most recent call last):
{PREFIX}  File "/srv/minova/service.py", line 3, in run
{PREFIX}    work()
{PREFIX}KeyError: 'x'
{PREFIX}
{PREFIX}The above exception was the direct cause of the following exception:
{PREFIX}
{PREFIX}Traceback (most recent call last):
{PREFIX}  File "/srv/minova/conductor/tasks.py", line 9, in work
{PREFIX}    raise errors.Broken("y")
{PREFIX}minova.errors.Broken: y
2026-11-26 16:12:02.100 10210 INFO minova.service [None req-1 - - - - - -] minova-conductor stopped
"""
PRINTED = """Exception in thread beat:
Traceback (most recent call last):
  File "/srv/release/site/minova/service.py", line 3, in run
    work()
    ~~~~^^
minova.compute.instances.abandonment.Abandoned
"""
DEBUG = LOGGED.replace("ERROR minova.service [None", "DEBUG minova.service [None")


def test_a_chain_of_causes_is_one_traceback() -> None:
    (traceback,) = tracebacks(LOGGED)
    assert (traceback.level, traceback.logged, traceback.error) == (
        "ERROR",
        "Error during beat: no",
        "minova.errors.Broken: y",
    )
    assert traceback.paths == ("/srv/minova/service.py", "/srv/minova/conductor/tasks.py")


def test_what_python_prints_is_found() -> None:
    (traceback,) = tracebacks(PRINTED)
    assert traceback.logged == "Exception in thread beat:"
    assert traceback.error.endswith("Abandoned")


def test_each_kind_is_one_violation() -> None:
    (complaint,) = unexpected({"conductor-1": LOGGED + LOGGED, "conductor-2": LOGGED}, "/srv/release")
    assert complaint == (
        "3 tracebacks, the first in the log of conductor-1: Error during beat: minova.errors.Broken: y"
    )


def test_another_release_and_debug_lines_do_not_count() -> None:
    assert unexpected({"a": PRINTED, "b": DEBUG}, "/srv/release") == []
    assert len(unexpected({"a": PRINTED}, "/srv/elsewhere")) == 1


def test_bug_a_traceback_inside_a_message_counts() -> None:
    debug = "2026-11-26 16:12:01.1 10210 DEBUG oslo.messaging [-] message: {'tb': 'Traceback (most recent call last):\\n'}\n"
    assert tracebacks(debug + LOGGED) == tracebacks(LOGGED)


def test_bug_an_error_of_several_lines_ends_its_chain() -> None:
    detail = f"{PREFIX}DETAIL:  Key (node_id)=(6) already exists.\n"
    chain = LOGGED.replace(f"{PREFIX}KeyError: 'x'\n", f"{PREFIX}KeyError: 'x'\n{detail}")
    (traceback,) = tracebacks(chain)
    assert traceback.error == "minova.errors.Broken: y"
