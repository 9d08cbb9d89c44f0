from minova.objects.hosts.cpu_times import CpuTimes


def test_waiting_for_disks_counts_as_used() -> None:
    times = CpuTimes(user=1, kernel=20, idle=300, iowait=4000, frequency=50000)
    assert (times.used, times.total) == (4021, 4321)
