import numpy as np

from minova.scheduler.hosts.inventory_columns import single_value


def test_a_unit_that_all_hosts_share_is_one_number() -> None:
    assert single_value(np.array([4, 4, 4])) == 4
    assert single_value(np.array([4, 4, 5])).tolist() == [4, 4, 5]
    assert single_value(np.array([5, 4, 4])).tolist() == [5, 4, 4]
    assert single_value(np.zeros(0, np.int64)).tolist() == []
