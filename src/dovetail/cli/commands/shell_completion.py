"""`dovetail shell-completion SHELL`: completion scripts for shells."""

from __future__ import annotations

import argparse

from dovetail.cli.exit_status import OK

# Each script runs `dovetail __complete` with the words up to the cursor; `@files` asks for file names.
_BASH = """\
_dovetail() {
    local IFS=$'\\n' candidates
    candidates=($(dovetail __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    if [[ ${candidates[0]} == @files ]]; then
        compopt -o filenames 2>/dev/null
        COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
    else
        COMPREPLY=("${candidates[@]}")
    fi
}
complete -F _dovetail dovetail
"""

_ZSH = """\
#compdef dovetail
_dovetail() {
    local -a candidates
    candidates=("${(@f)$(dovetail __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ ${candidates[1]} == @files ]]; then
        _files
    else
        compadd -- "${(@)candidates:#}"
    fi
}
compdef _dovetail dovetail
"""

_FISH = """\
function __dovetail_candidates
    set -l words (commandline -opc) (commandline -ct)
    set -l found (dovetail __complete $words[2..-1] 2>/dev/null)
    if test "$found[1]" = @files
        __fish_complete_path (commandline -ct)
    else
        printf '%s\\n' $found
    end
end
complete -c dovetail -f -a '(__dovetail_candidates)'
"""

# Without candidates PowerShell completes file names. Some versions do not pass an empty word on, hence `@new`.
_POWERSHELL = """\
Register-ArgumentCompleter -Native -CommandName dovetail -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | Select-Object -Skip 1 |
        Where-Object { $_.Extent.StartOffset -lt $cursorPosition } | ForEach-Object { $_.ToString() })
    if ($wordToComplete -eq '') { $words += '@new' }
    dovetail __complete @words 2>$null | Where-Object { $_ -ne '@files' } | ForEach-Object {
        [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)
    }
}
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH, "powershell": _POWERSHELL}


def configure_shell_completion(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("shell", choices=tuple(SCRIPTS))


def run_shell_completion(options: argparse.Namespace) -> int:
    """Print the script."""
    print(SCRIPTS[options.shell], end="")
    return OK
