"""The numbers of writes, by which a late one is known."""

from minova.compute.tracker.node_writes import WriteOrder
from minova.objects.hosts.compute_node import ComputeNode

NODE = ComputeNode(uuid="u", host="h", hypervisor_hostname="n")


def test_writes_are_numbered_once_conductors_number_processes() -> None:
    order = WriteOrder()
    assert order.stamped(NODE) is NODE
    order.epoch = 7
    first, second = order.stamped(NODE), order.stamped(NODE)
    assert [(write.writer_epoch, write.write_number, write.acknowledged) for write in (first, second)] == [
        (7, 1, 0),
        (7, 2, 0),
    ]


def test_the_highest_number_that_was_answered_is_acknowledged() -> None:
    order = WriteOrder()
    order.epoch = 7
    first, second = order.stamped(NODE), order.stamped(NODE)
    order.acknowledge(second)
    order.acknowledge(first)
    third = order.stamped(NODE)
    assert (third.write_number, third.acknowledged) == (3, 2)
