"""`srcmap completion SHELL`: the script that lets a shell complete srcmap's command lines."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from srcmap.commands.options import Lang  # noqa: TC001 - typer evaluates the annotation
from srcmap.render.console import emit


class Shell(str, Enum):
    """The shells that are known."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


# The words are asked of srcmap itself: the scripts need not change when commands do.
_SCRIPTS = {
    "bash": """\
_srcmap() {
    local IFS=$'\\n'
    COMPREPLY=($(_SRCMAP_COMPLETE=bash COMP_LINE="$COMP_LINE" COMP_POINT="$COMP_POINT" \\
        COMP_WORDBREAKS="$COMP_WORDBREAKS" "$1" 2>/dev/null))
}
complete -o default -F _srcmap srcmap""",
    "zsh": """\
#compdef srcmap
_srcmap() {
    local -a found
    found=("${(@f)$(_SRCMAP_COMPLETE=zsh "${words[1]}" "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "$found" ]]; then
        _describe srcmap found
    else
        _files
    fi
}
if [ "$funcstack[1]" = _srcmap ]; then
    _srcmap "$@"
else
    compdef _srcmap srcmap
fi""",
    "fish": """\
function __srcmap_found
    set -l words (commandline -opc)
    set -l last (commandline -ct)
    _SRCMAP_COMPLETE=fish $words[1] $words[2..-1] "$last" 2>/dev/null
end
complete -c srcmap -e
complete -c srcmap -n 'test (count (__srcmap_found)) -gt 0' -f -k -a '(__srcmap_found)'
complete -c srcmap -n 'test (count (__srcmap_found)) -eq 0' -F""",
}


def register(app: typer.Typer) -> None:
    """Add `srcmap completion`."""

    @app.command("completion", help="completion.help", epilog="completion.examples")
    def command(
        shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="completion.shell")],
        lang: Lang = None,  # noqa: ARG001
    ) -> int:
        return run(shell.value)


def run(shell: str) -> int:
    """Print the script for a shell."""
    emit(_SCRIPTS[shell])
    return 0
