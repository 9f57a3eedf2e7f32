"""Completion of shells, made from the parser itself."""

import argparse
from collections.abc import Iterator
from typing import NamedTuple

from ..study import SYSTEMS
from ._examples import example_titles

NAMES = {"models": lambda: list(SYSTEMS), "examples": lambda: list(example_titles())}
"""Commands whose positional argument is a name that is known."""


class Word(NamedTuple):
    """A command or an option: its spellings, its help in one line, and whether a value follows."""

    texts: tuple[str, ...]
    about: str
    valued: bool


class Command(NamedTuple):
    """A command: its options, the words that its positional argument may be, and whether that is a file."""

    about: str
    options: tuple[Word, ...]
    words: tuple[str, ...]
    files: bool


def completion_of(shell: str, parser: argparse.ArgumentParser) -> str:
    """The script that a shell reads: `source <(simkit completion bash)`, and the same for zsh; for fish `... | source`."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](commands_of(parser))


def commands_of(parser: argparse.ArgumentParser) -> dict[str, Command]:
    """The commands of a parser, by name."""
    chosen = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    about = {action.dest: action.help or "" for action in chosen._choices_actions}
    found = {}
    for name, own in chosen.choices.items():
        options, words, files = [], list(NAMES[name]()) if name in NAMES else [], False
        for action in own._actions:
            if action.option_strings:
                options.append(Word(tuple(action.option_strings), _line(action.help), action.nargs != 0))
            elif action.choices is not None:
                words += map(str, action.choices)
            else:
                files = files or name not in NAMES
        found[name] = Command(about.get(name, ""), tuple(options), tuple(words), files)
    return found


def _line(text: str | None) -> str:
    """A help text as one line without what shells would read."""
    plain = "".join(" " if letter in "'\"`\\$[]:" else letter for letter in text or "")
    return " ".join(plain.split())


def _spellings(command: Command) -> Iterator[str]:
    for option in command.options:
        yield from option.texts


def _bash(commands: dict[str, Command]) -> str:
    cases = []
    for name, command in commands.items():
        valued = "|".join(text for option in command.options if option.valued for text in option.texts) or "--none"
        words = " ".join(command.words)
        files = (
            'COMPREPLY=($(compgen -f -- "$word"))'
            if command.files
            else f'COMPREPLY=($(compgen -W "{words}" -- "$word"))'
        )
        cases.append(
            f"    {name})\n"
            f'      case "$before" in {valued}) COMPREPLY=($(compgen -f -- "$word")); return ;; esac\n'
            f'      if [[ "$word" == -* ]]; then COMPREPLY=($(compgen -W "{" ".join(_spellings(command))}" -- "$word"))\n'
            f"      else {files}; fi ;;"
        )
    return "\n".join(
        [
            "# Completion of simkit for bash: source <(simkit completion bash)",
            "_simkit() {",
            '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"',
            "  COMPREPLY=()",
            '  if [[ "$COMP_CWORD" -eq 1 ]]; then',
            f'    COMPREPLY=($(compgen -W "{" ".join(commands)} --help --version" -- "$word")); return',
            "  fi",
            '  case "${COMP_WORDS[1]}" in',
            *cases,
            "  esac",
            "}",
            "complete -o filenames -F _simkit simkit",
        ]
    )


def _zsh(commands: dict[str, Command]) -> str:
    cases = []
    for name, command in commands.items():
        specs = [
            f"'{text}[{option.about}]{':value:_files' if option.valued else ''}'"
            for option in command.options
            for text in option.texts
        ]
        words = f"'*:name:({' '.join(command.words)})'" if command.words else "'*:file:_files'"
        cases.append(f"    {name}) _arguments {' '.join([*specs, words])} ;;")
    described = " ".join(f"'{name}:{_line(command.about)}'" for name, command in commands.items())
    return "\n".join(
        [
            "#compdef simkit",
            "# Completion of simkit for zsh: source <(simkit completion zsh)",
            "_simkit() {",
            f"  local -a commands=({described})",
            "  if (( CURRENT == 2 )); then _describe command commands; return; fi",
            '  local name="${words[2]}"; shift words; (( CURRENT-- ))',
            '  case "$name" in',
            *cases,
            "  esac",
            "}",
            "compdef _simkit simkit",
        ]
    )


def _fish(commands: dict[str, Command]) -> str:
    lines = ["# Completion of simkit for fish: simkit completion fish | source"]
    for name, command in commands.items():
        lines.append(f"complete -c simkit -f -n __fish_use_subcommand -a {name} -d '{_line(command.about)}'")
        seen = f"-n '__fish_seen_subcommand_from {name}'"
        if command.words:
            lines.append(f"complete -c simkit -f {seen} -a '{' '.join(command.words)}'")
        for option in command.options:
            spelled = " ".join(f"-l {text[2:]}" if text.startswith("--") else f"-s {text[1:]}" for text in option.texts)
            lines.append(f"complete -c simkit {seen} {spelled}{' -r' if option.valued else ''} -d '{option.about}'")
    return "\n".join(lines)
