"""Code on the pages: blocks of Python compile and import what exists, the walk-throughs of filters and weighers run, and commands have
the words and options that a page names.
"""

import argparse
import ast
import importlib
import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from minova.cli.commands.server.actions import power as cli_power
from minova.cli.registry import COMMANDS, LazyCommand
from minova.cli.shell import Shell
from minova.cmd import manage
from minova.cmd.commands import config_check
from minova.conf.foreign_options import Meaning
from minova.objects.actions import power
from minova.scheduler.weights import Weigher
from tests.benchmarks.command_line import Option, parse
from tests.unit.docs.test_documents import EXAMPLES, PAGES, ROOT
from tests.unit.scheduler.filters.cases import Case, check
from tests.unit.scheduler.weights.test_all_weighers import test_weigher as check_weigher

# Lists of changes tell of commands that were.
CURRENT = [
    page
    for page in PAGES
    if page.name != "CHANGELOG.md" and not page.name.startswith("changes-") and "decisions" not in page.parts
]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MADE = {path.removesuffix(".py").replace("/", ".") for path in EXAMPLES}
# Commands that a walk-through makes.
NEW_COMMANDS = {"server fault"}
# In pages ALL_CAPS, <words>, [words] and ... stand for something else.
STANDS_FOR = re.compile(r"[A-Z_]{2,}|.*[<>\[\]…].*|\.\.\.")
GLOBAL = set(Shell().parser._option_string_actions)


def blocks(page: Path, *languages: str) -> Iterator[str]:
    return (code for language, code in FENCED.findall(page.read_text()) if language in languages)


PYTHON = [
    pytest.param(code, id=f"{page.relative_to(ROOT)}-{number}")
    for page in CURRENT
    for number, code in enumerate(blocks(page, "python"), 1)
]


def tree_of(code: str) -> ast.Module:
    """Of a block that is whole, indented, or consists of entries of a dictionary."""
    text = textwrap.dedent(code)
    try:
        return ast.parse(text)
    except SyntaxError:
        return ast.parse(f"{{\n{text}\n}}")


@pytest.mark.parametrize("code", PYTHON)
def test_blocks_of_python_compile(code: str) -> None:
    tree = tree_of(code)
    # A formatter makes a tuple of a call with a comma behind it: nobody could copy that.
    tuples = [node for node in tree.body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Tuple)]
    assert tuples == []


@pytest.mark.parametrize("code", PYTHON)
def test_blocks_of_python_import_what_exists(code: str) -> None:
    for node in ast.walk(tree_of(code)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                importlib.import_module(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module not in MADE:
            module = importlib.import_module(str(node.module))
            missing = [alias.name for alias in node.names if not hasattr(module, alias.name)]
            assert [name for name in missing if not _is_module(f"{node.module}.{name}")] == []


def _is_module(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


# -- the walk-throughs -------------------------------------------------------------------------------------------------


def run(page: str) -> dict[str, Any]:
    """What all blocks of the page define, one after the other."""
    names: dict[str, Any] = {}
    for code in blocks(ROOT / "docs/developers" / page, "python"):
        exec(compile(code, page, "exec"), names)
    return names


def with_option(monkeypatch: pytest.MonkeyPatch, option: cfg.Opt) -> None:
    """As if minova/conf/scheduler.py had the option."""
    scheduler = importlib.import_module("minova.conf.scheduler")
    monkeypatch.setattr(scheduler, "OPTS", [*scheduler.OPTS, option])


def test_the_filter_of_the_page_works(monkeypatch: pytest.MonkeyPatch) -> None:
    names = run("add-a-filter.md")
    with_option(monkeypatch, names["OPTION"])
    cases: list[Case] = names["FAILED_BUILDS"]
    assert [case.lost is None for case in cases] == [True, False]
    for case in cases:
        check(case)


def test_the_weigher_of_the_page_works(monkeypatch: pytest.MonkeyPatch) -> None:
    names = run("add-a-weigher.md")
    with_option(monkeypatch, names["OPTION"])
    cls: type[Weigher] = names["HALF_FULL"][0]
    assert cls.option == names["OPTION"].dest
    check_weigher(*names["HALF_FULL"])


def test_the_entry_and_the_command_on_the_page_of_actions_are_those_of_the_code() -> None:
    entry, *_, command, _ = blocks(ROOT / "docs/developers/add-a-server-action.md", "python")
    names = dict(vars(power))
    exec(compile(entry, "entry", "exec"), names)
    assert names["PAUSE"] == power.PAUSE
    names = dict(vars(cli_power))
    exec(compile(command, "command", "exec"), names)
    on_page, real = names["ServerPause"], cli_power.ServerPause
    assert (on_page.__doc__, on_page.key, on_page.status, on_page.done) == (
        real.__doc__,
        real.key,
        real.status,
        real.done,
    )


# -- configuration files -----------------------------------------------------------------------------------------------

INI = [
    pytest.param(text, id=f"{page.relative_to(ROOT)}-{number}")
    for page in CURRENT
    for number, text in enumerate(blocks(page, "ini"), 1)
]


@pytest.mark.parametrize("text", INI)
def test_each_option_in_a_block_of_ini_has_an_effect(text: str, tmp_path: Path) -> None:
    file = tmp_path / "minova.conf"
    file.write_text(text)
    options = config_check.findings([file])
    assert options
    assert [option for option in options if option.meaning is not Meaning.USED] == []


# -- commands ----------------------------------------------------------------------------------------------------------


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each command of minova on the page: in indented or fenced blocks, and in `code` that has an argument."""
    text = page.read_text()
    lines = re.findall(
        r"^ {4}(?:\$ |# )?(\S.*)$",
        re.sub(r"^```python.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL),
        re.MULTILINE,
    )
    lines += [line for code in blocks(page, "", "bash", "console", "sh") for line in code.splitlines()]
    lines += re.findall(r"`([^`\n]+)`", text)
    for line in lines:
        try:
            words = shlex.split(line.replace(r"\|", "|"), comments=True)
        except ValueError:
            continue
        while words and (words[0] in {"sudo", "$"} or "=" in words[0]):
            words = words[1:]
        for end, word in enumerate(words):
            if word in {"|", "&&", ";", ">", "2>&1", "||"}:
                words = words[:end]
                break
        if words and Path(words[0]).name in {"minova", "minova-manage", "python", "tox", "check"} and len(words) > 1:
            yield [Path(words[0]).name, *words[1:]]


def texts(module: ast.Module) -> Iterator[str]:
    """The texts of a module, also those of its help and messages; a value in an f-string is VALUE."""
    parts = set()
    for node in ast.walk(module):
        if isinstance(node, ast.JoinedStr):
            parts.update(node.values)
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "VALUE" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in parts:
            yield node.value


def commands_in_texts(path: Path) -> Iterator[list[str]]:
    """The words of each command of minova that a help or a message quotes, such as 'minova server show SERVER'."""
    for text in texts(ast.parse(path.read_text())):
        for line in re.findall(r"'(minova(?:-manage)? [^'\n]*[^' \n])'|`(minova(?:-manage)? [^`\n|]+)`", text):
            yield shlex.split("".join(line))


COMMAND_LINES = sorted(
    {tuple(words) for page in CURRENT for words in commands(page)}
    | {tuple(words) for path in (ROOT / "minova").rglob("*.py") for words in commands_in_texts(path)}
)
# The last words of commands: none is the name of a server or image.
VERBS = {name.split()[-1] for name in COMMANDS}


def options_of(words: tuple[str, ...] | list[str]) -> list[str]:
    """The options before a `--`, behind which are words of another program."""
    own = list(words)[: list(words).index("--")] if "--" in words else words
    return [word.partition("=")[0].rstrip(".,") for word in own if word.startswith("--")]


def lines_of(program: str) -> list[Any]:
    return [pytest.param(words[1:], id=" ".join(words)) for words in COMMAND_LINES if words[0] == program]


@pytest.mark.parametrize("words", lines_of("minova"))
def test_commands_and_options_of_the_command_line_exist(words: tuple[str, ...]) -> None:
    rest = list(words)
    while rest and rest[0].startswith("-"):
        rest = rest[1:] if "=" in rest[0] or rest[0] in {"--help", "--version", "--debug"} else rest[2:]
    if not rest or STANDS_FOR.fullmatch(rest[0]):
        assert set(options_of(words)) <= GLOBAL
        return
    plain = [word for word in rest if not word.startswith("-")]
    if " ".join(plain[:2]) in NEW_COMMANDS:
        return
    lengths = [length for length in range(len(plain), 0, -1) if " ".join(plain[:length]) in COMMANDS]
    nouns = {" ".join(name.split()[:length]) for name in COMMANDS for length in (1, 2)}
    if not lengths:
        assert plain[0] in nouns, plain
        verbs = [word for word in plain[1:] if not STANDS_FOR.fullmatch(word)]
        assert not verbs or " ".join(plain[:2]) in nouns, plain
        return
    name = " ".join(plain[: lengths[0]])
    assert plain[lengths[0] : lengths[0] + 1] not in [[verb] for verb in VERBS], f"{name} has no such command"
    parser: argparse.ArgumentParser = LazyCommand(name, COMMANDS[name]).load()(Shell(), None).get_parser(name)
    unknown = [option for option in options_of(words) if option not in parser._option_string_actions]
    assert set(unknown) <= GLOBAL, name


def find_parser(parser: argparse.ArgumentParser, words: list[str]) -> tuple[argparse.ArgumentParser, set[str]]:
    """The parser of the innermost command, and all options on the way. Raises KeyError if there is no such command."""
    options = set(parser._option_string_actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            names = [
                word
                for word in words
                if not word.startswith("-") and "/" not in word and not STANDS_FOR.fullmatch(word)
            ]
            if not names:
                return parser, options
            inner, below = find_parser(action.choices[names[0]], words[words.index(names[0]) + 1 :])
            return inner, options | below
    return parser, options


@pytest.mark.parametrize("words", lines_of("minova-manage"))
def test_commands_and_options_of_the_operators_tool_exist(words: tuple[str, ...]) -> None:
    parser = argparse.ArgumentParser()
    manage._add_commands(parser.add_subparsers())
    before = manage.BEFORE_COMMANDS
    _, options = find_parser(parser, [word for word in words if not word.startswith(before)])
    unknown = {option for option in options_of(words) if not option.startswith(before)} - options
    assert unknown == set()


@pytest.mark.parametrize("words", lines_of("python"))
def test_programs_of_the_tests_exist(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """A benchmark has the options that a page names."""
    module = words[words.index("-m") + 1] if "-m" in words else ""
    if not module.startswith(("tests.", "minova.")):
        return
    if STANDS_FOR.fullmatch(module.rpartition(".")[2]):
        return
    assert importlib.util.find_spec(module) is not None
    if module.startswith("tests.benchmarks."):
        known_options: list[Option] = []

        def note(name: str, doc: str | None, *options: Option) -> None:
            known_options.extend(options)
            raise SystemExit

        program = importlib.import_module(f"{module}.__main__")
        monkeypatch.setattr(program, parse.__name__, note)
        with pytest.raises(SystemExit):
            program.main()
        assert set(options_of(words)) <= {f"--{option.name}" for option in known_options} | {"--smallest", "--help"}
        assert [word for word in words[words.index("-m") + 2 :][:1] if not word.startswith(("-", "["))] == []


@pytest.mark.parametrize("words", [*lines_of("check"), *lines_of("tox")])
def test_kinds_of_checks_exist(words: tuple[str, ...]) -> None:
    kinds = words[1:2] if words[0] == "-e" else words[: words.index("--")] if "--" in words else words
    run_kinds = (ROOT / "tools/check").read_text() + (ROOT / "setup.cfg").read_text()
    assert [kind for kind in kinds if not re.search(rf"\b{re.escape(kind)}\b", run_kinds)] == []
