"""The line that shows how far a live migration is."""

from minova.cli.commands.server.migration import progress_line


def test_the_line_has_a_bar_what_is_left_the_speed_and_the_downtime() -> None:
    progress = {
        "memory_total_bytes": 100 << 20,
        "memory_remaining_bytes": 20 << 20,
        "disk_total_bytes": 100 << 20,
        "disk_remaining_bytes": 30 << 20,
        "bytes_per_second": 7 << 20,
        "downtime_ms": 46,
    }
    line = "running  [###############.....]  75%  disks 30 MiB left  memory 20 MiB left  7 MiB/s  downtime 46 ms"
    assert progress_line("running", progress) == line


def test_a_migration_that_waits_has_no_bar() -> None:
    assert progress_line("queued", {"memory_total_bytes": None, "disk_total_bytes": None}) == "queued"


def test_memory_that_is_written_again_and_again_is_not_below_nothing() -> None:
    progress = {"memory_total_bytes": 1, "memory_remaining_bytes": 2, "disk_total_bytes": 0, "disk_remaining_bytes": 0}
    assert progress_line("running", progress).startswith("running  [....................]   0%")
