# SPDX-License-Identifier: Apache-2.0

"""Completion for zsh and fish; cliff has bash's.

cliff finds both by their entry points, and hands over the names of all commands and, by command,
what may follow it: the next words of its name, or its options.  Words are joined with ``_``.
"""

from __future__ import annotations

from collections.abc import Sequence

from cliff import complete

_ZSH = """\
#compdef {name}

_{function}() {{
  local -A known=(
{known}
  )
  local command='{root}' word
  for word in "${{(@)words[2,CURRENT-1]}}"; do
    [[ $word == -* || -z ${{known[${{command}}_$word]}} ]] && break
    command+="_$word"
  done
  local -a offered=(${{=known[$command]}})
  if [[ ${{offered[1]}} == -* && ${{words[CURRENT]}} != -* ]]; then
    _files
  else
    compadd -a offered
  fi
}}

compdef _{function} {name}
"""

_FISH = """\
function __{function}_after
  switch "$argv[1]"
{known}
  case '*'
    return 1
  end
end

function __{function}_offered
  set -l command '{root}'
  for word in (commandline -opc)[2..-1]
    string match -q -- '-*' $word; and break
    __{function}_after "$command"_"$word" >/dev/null; or break
    set command "$command"_"$word"
  end
  __{function}_after $command
end

complete -c {name} -a '(__{function}_offered)'
"""

# Of the table of what may follow: no command is called so.
_ROOT = "."


class _Shell(complete.CompleteNoCode):
    """Writes a script that is a template with a table in it."""

    template: str
    row: str

    def write(self, cmdo: str, data: Sequence[tuple[str, str]]) -> None:
        """Write the script.

        :param cmdo: the first words of all commands.
        :param data: what may follow, by command; words with spaces between them.
        """
        rows = [(_ROOT, cmdo), *((f"{_ROOT}_{command}", words) for command, words in data)]
        known = "\n".join(self.row.format(command, words) for command, words in rows if words)
        self.output.write(
            self.template.format(
                name=self.name, function=self.escaped_name, known=known, root=_ROOT
            )
        )


class Zsh(_Shell):
    """The script for zsh, which is also a file for a directory of ``$fpath``."""

    template = _ZSH
    row = "    '{}' '{}'"


class Fish(_Shell):
    """The script for fish."""

    template = _FISH
    row = "  case '{}'\n    string split ' ' -- '{}'"
