"""What tests do only at night, tools/check nightly really asks of them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
# What the ordinary run may be given by hand, and the harnesses of other programs.
NOT_NIGHTLY = {
    "MINOVA_ALARM_SECONDS",
    "MINOVA_DEBIAN_TREE",
    "MINOVA_FIRST_STORY",
    "MINOVA_FUZZ_SEED",
    "MINOVA_SOAK_SEED",
    "MINOVA_STRIDE",
}
_READ = re.compile(r'environ(?:\.get\(|\[)"(MINOVA_[A-Z_]+)"')


def _runs() -> dict[str, set[str]]:
    """The files and folders that the nightly run gives to pytest, by variable."""
    script = (ROOT / "tools/check").read_text().replace("\\\n", " ")
    night = script.partition("        nightly)\n")[2].partition("            ;;\n")[0]
    runs: dict[str, set[str]] = {}
    for line in night.splitlines():
        for variable in re.findall(r"(MINOVA_[A-Z_]+)=", line.partition("python")[0]):
            runs.setdefault(variable, set()).update(re.findall(r"tests/[\w/.]+", line.partition("pytest")[2]))
    return runs


def test_each_test_with_a_nightly_part_is_in_the_nightly_run() -> None:
    runs = _runs()
    assert {"MINOVA_TABLE", "MINOVA_KILLS", "MINOVA_SEEDS"} <= runs.keys()
    missing = [
        (variable, path)
        for file in sorted((ROOT / "tests").rglob("test_*.py"))
        for path in [str(file.relative_to(ROOT))]
        for variable in sorted(set(_READ.findall(file.read_text())) - NOT_NIGHTLY)
        if not any(path == run or path.startswith(f"{run}/") for run in runs.get(variable, ()))
    ]
    assert missing == []
