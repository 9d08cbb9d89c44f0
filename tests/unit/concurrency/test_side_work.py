"""Pieces of work at the same time: nothing goes on after the call, and no error is lost."""

import threading

import pytest

from minova.concurrency.side_work import beside, together


def test_all_run_at_the_same_time() -> None:
    meeting = threading.Barrier(3, timeout=30)
    together("t", [meeting.wait, meeting.wait, meeting.wait])


def test_an_error_is_raised_once_everything_has_ended() -> None:
    failed, ended = threading.Event(), []

    def fail() -> None:
        failed.set()
        raise ValueError("first")

    def go_on() -> None:
        assert failed.wait(30)
        ended.append(1)
        raise KeyError("second")

    with pytest.raises(ValueError, match="first"):
        together("t", [fail, go_on])
    assert ended == [1]
    with pytest.raises(KeyError):
        together("t", [lambda: None, go_on])


def test_work_beside_a_block_that_fails_is_waited_for() -> None:
    begun, ended = threading.Event(), []

    def work() -> None:
        assert begun.wait(30)
        ended.append(1)

    def fail() -> None:
        begun.set()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"), beside("t", work):
        fail()
    assert ended == [1]


def test_nothing_to_do() -> None:
    together("t", [])
