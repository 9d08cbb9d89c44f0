"""Callers that come together are served together, and each gets its own answer."""

import threading
from collections.abc import Sequence

import pytest

from minova.concurrency.batch_queue import BatchQueue, QueuedRequest, serve_together

Asked = QueuedRequest[int, int]


def test_one_caller_is_served_at_once_in_its_own_thread() -> None:
    served_by = []

    def work(queued: Sequence[Asked]) -> None:
        served_by.append(threading.current_thread())
        for entry in queued:
            entry.served(entry.request * 2)

    assert BatchQueue(work, 8).ask(21) == 42
    assert served_by == [threading.current_thread()]


def test_those_who_wait_are_served_together_but_never_more_than_the_bound() -> None:
    sizes: list[int] = []
    first_is_in, may_go = threading.Event(), threading.Event()

    def work(queued: Sequence[Asked]) -> None:
        sizes.append(len(queued))
        first_is_in.set()
        assert may_go.wait(60)
        for entry in queued:
            entry.served(entry.request * 2)

    line = BatchQueue(work, 4)
    answers: dict[int, int] = {}
    threads = [threading.Thread(target=lambda n=n: answers.update({n: line.ask(n)})) for n in range(9)]
    threads[0].start()
    assert first_is_in.wait(60)
    for thread in threads[1:]:
        thread.start()
    while len(line._waiting) < 8:
        threading.Event().wait(0.001)
    may_go.set()
    for thread in threads:
        thread.join(60)
    assert answers == {n: n * 2 for n in range(9)}
    assert sizes == [1, 4, 4]


def test_an_error_of_the_work_goes_to_those_who_have_no_answer_yet() -> None:
    def work(queued: Sequence[Asked]) -> None:
        raise KeyError("lost")

    line = BatchQueue(work, 4)
    for _ in range(2):
        with pytest.raises(KeyError):
            line.ask(1)


def test_each_caller_may_get_an_error_of_its_own() -> None:
    def work(queued: Sequence[Asked]) -> None:
        for entry in queued:
            entry.served(ValueError(entry.request))

    with pytest.raises(ValueError, match="7"):
        BatchQueue(work, 4).ask(7)


def test_the_requests_of_one_caller_are_served_in_batches_and_answered_in_order() -> None:
    sizes: list[int] = []

    def work(queued: Sequence[Asked]) -> None:
        sizes.append(len(queued))
        for entry in queued:
            entry.served(ValueError(entry.request) if entry.request == 5 else entry.request * 2)

    queue = BatchQueue(work, 4)
    answers = queue.ask_all(range(9))
    assert sizes == [4, 4, 1]
    assert [answer if isinstance(answer, int) else str(answer) for answer in answers] == [
        0,
        2,
        4,
        6,
        8,
        "5",
        12,
        14,
        16,
    ]
    assert queue.ask_all([]) == []
    assert queue.ask(1) == 2


def queued_requests(*numbers: int) -> list[Asked]:
    return [Asked(number) for number in numbers]


def doubled(number: int) -> int:
    if number < 0:
        raise ValueError(number)
    return number * 2


def test_requests_that_are_not_served_together_are_served_alone() -> None:
    queued = queued_requests(1, -2, 3)
    serve_together(queued, lambda several: several[0].served(10), doubled)
    first, second, third = (entry.outcome() for entry in queued)
    assert (first, str(second), third) == (10, "-2", 6)


def test_a_single_request_is_served_alone() -> None:
    queued = queued_requests(4)
    serve_together(queued, lambda several: several[0].served(0), doubled)
    assert queued[0].outcome() == 8


def test_an_error_that_stops_is_raised_and_leaves_the_others_unserved() -> None:
    queued = queued_requests(1, -2, 3)
    with pytest.raises(ValueError, match="-2"):
        serve_together(queued, lambda several: None, doubled, stop_at=(ValueError,))
    assert [entry.done for entry in queued] == [True, False, False]
