"""`minova complete`: a script for a shell that completes minova's commands and options."""

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

import cliff.complete

from minova.cli.base import Command
from minova.cli.registry import is_longer_spelling

BASH, ZSH, FISH = "bash", "zsh", "fish"

# `{table}`: the words that may follow each incomplete command. After a complete command come options, or files if no
# option is begun.
_ZSH = r"""#compdef {name}
_{function}() {{
  local -A following=(
{table}
  )
  local key= word
  for word in "${{words[@]:1:$((CURRENT - 2))}}"; do
    [[ -n ${{following[${{key:+$key }}$word]}} ]] || break
    key=${{key:+$key }}$word
  done
  local -a found=(${{=following[$key]}})
  if [[ $found[1] == -* && $PREFIX != -* ]]; then
    _files
  else
    compadd -- $found
  fi
}}
compdef _{function} {name}
"""
_FISH = r"""function __{function}_at
    set -l key
    for word in (commandline -opc)[2..]
        string match -q -- '-*' $word; and break
        set -l longer (string trim -- "$key $word")
        contains -- $longer $__{function}_commands; or break
        set key $longer
    end
    test "$key" = "$argv[1]"
end
set -g __{function}_commands {commands}
{lines}
"""


class Complete(Command):
    """Print a script that completes minova's commands: source <(minova complete); minova complete --shell fish | source."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--shell", choices=[BASH, FISH, ZSH], default=BASH, help=f"the shell; {BASH} by default")
        parser.add_argument("--name", default=self.app.NAME, help="the command to complete, where it has another name")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        name, options = parsed_args.name, self._options()
        if parsed_args.shell == BASH:
            dictionary = cliff.complete.CompleteDictionary()
            for command, actions in options.items():
                dictionary.add_command(command.split(), [*actions])
            cliff.complete.CompleteBash(name, self.app.stdout).write(dictionary.get_commands(), dictionary.get_data())
        else:
            script = _zsh if parsed_args.shell == ZSH else _fish
            self.app.stdout.write(script(name, options))
        return 0

    def _options(self) -> dict[str, list[argparse.Action]]:
        """Returns the options by command, in alphabetical order."""
        options_by_command = {}
        for name, entry in sorted(self.app.command_manager):
            if not is_longer_spelling(name):
                parser = entry.load()(self.app, self.app.options, cmd_name=name).get_parser(f"{self.app.NAME} {name}")
                options_by_command[name] = [action for action in parser._actions if action.option_strings]
        return options_by_command


def _words(commands: Iterable[str]) -> dict[str, list[str]]:
    """Returns the possible next words by the words so far, in alphabetical order."""
    following: dict[str, set[str]] = {}
    for command in commands:
        words = command.split()
        for number, word in enumerate(words):
            following.setdefault(" ".join(words[:number]), set()).add(word)
    return {key: sorted(words) for key, words in sorted(following.items())}


def _zsh(name: str, options: Mapping[str, Iterable[argparse.Action]]) -> str:
    table: dict[str, list[str]] = _words(options)
    for command, actions in options.items():
        table.setdefault(command, []).extend(spelling for action in actions for spelling in action.option_strings)
    lines = [f"    '{key}' '{' '.join(words)}'" for key, words in table.items()]
    return _ZSH.format(name=name, function=name.replace("-", "_"), table="\n".join(lines))


def _fish(name: str, options: Mapping[str, Iterable[argparse.Action]]) -> str:
    function, words = name.replace("-", "_"), _words(options)
    lines = []
    for key, following in words.items():
        # Suggest no files where a word of a command is expected.
        lines.append(f"complete -c {name} -f -n \"__{function}_at '{key}'\" -a '{' '.join(following)}'")
    lines += [
        f"complete -c {name} -n \"__{function}_at '{command}'\" {_fish_option(action)}"
        for command, actions in options.items()
        for action in actions
    ]
    commands = " ".join(
        f"'{key}'" for key in [*(key for key in words if key), *(key for key in options if key not in words)]
    )
    return _FISH.format(function=function, commands=commands, lines="\n".join(lines))


def _fish_option(action: argparse.Action) -> str:
    spellings = [
        f"-l {spelling.removeprefix('--')}" if spelling.startswith("--") else f"-s {spelling.removeprefix('-')}"
        for spelling in action.option_strings
    ]
    parts = [*spellings, *(["-r"] if action.nargs != 0 else []), *_choices(action.choices)]
    help_text = str(action.help or "").partition("\n")[0].replace("\\", "").replace("'", "")
    return " ".join([*parts, f"-d '{help_text}'"])


def _choices(choices: Iterable[Any] | None) -> list[str]:
    return [] if choices is None else ["-f", f"-a '{' '.join(map(str, choices))}'"]
