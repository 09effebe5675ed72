"""The command line: arguments to a command, and whatever happens to an exit code.

Commands are mounted by name and imported when they are called, so that `srcmap variant` pays for
nothing but itself. A command module has `register(app)`, which adds one command or one group of the
module's name; help strings that are keys of `data/text` are said in the reader's language.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Optional

import typer
from typer.core import TyperGroup
from typer.main import get_group

from srcmap import __version__, i18n
from srcmap.commands.options import Lang  # noqa: TC001 - typer evaluates the annotation
from srcmap.errors import SrcmapError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

# In the order of the help page. The module is `srcmap.commands.<name>`.
COMMANDS = (
    *("variant", "where", "show", "anatomy"),
    *("diff", "compare", "concept", "search"),
    *("cite", "drift", "bump", "history"),
    *("run", "trace", "verify"),
    *("map", "lock", "sync", "doctor", "completion"),
)

# typer carries its own copy of click or leans on the real one, by version; these are the bases.
_ClickUsageError: Any = typer.BadParameter.__mro__[1]
_ClickException: Any = typer.BadParameter.__mro__[2]


def run(argv: Sequence[str]) -> int:
    """Run one command line and return its exit code. This is the only error boundary."""
    lang, rest = _asked_language(argv)
    i18n.use(lang)
    try:
        return _dispatch(_look(rest, lang))
    except SrcmapError as error:
        _tell_error(error, lang)
        return error.exit_code
    except _ClickException as error:
        return _tell_usage(error, lang)
    except typer.Exit as leaving:
        return leaving.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:
        _silence_stdout()
        return 0
    except Exception as error:  # noqa: BLE001 - the boundary: what comes here is a bug, and is told
        return _tell_bug(error, argv, lang)


def build() -> Any:
    """Build the command line; no command is imported."""
    app = typer.Typer(
        cls=_Commands, add_completion=False, rich_markup_mode=None, help="cli.summary"
    )
    app.callback(invoke_without_command=True)(_root)
    return _localised(get_group(app))


def _dispatch(argv: list[str]) -> int:
    command = build()
    if os.environ.get("_SRCMAP_COMPLETE") in ("bash", "zsh", "fish"):
        return _complete(command, argv)
    # Not command.main(): its own handling of interrupts and pipes differs between typer versions.
    with command.make_context("srcmap", argv) as context:
        code = command.invoke(context)
    return code if isinstance(code, int) else 0


def _complete(command: Any, argv: list[str]) -> int:
    from srcmap.completing import complete
    from srcmap.render.console import emit

    emit(complete(command, os.environ, argv))
    return 0


def _root(
    ctx: typer.Context,
    version: bool = typer.Option(False, "--version", help="cli.version", is_eager=True),
    lang: Lang = None,  # noqa: ARG001 - read by _asked_language, before there is a command line
    width: Optional[int] = typer.Option(  # noqa: ARG001, UP045 - read by _look, like the next one
        None, "--width", metavar="CELLS", help="cli.width", show_default=False
    ),
    no_pager: bool = typer.Option(  # noqa: ARG001
        False, "--no-pager", help="cli.no-pager"
    ),
) -> None:
    if version:
        typer.echo(f"srcmap {__version__}")
        raise typer.Exit(0)
    if ctx.invoked_subcommand is None:
        from srcmap.render.console import emit

        emit(ctx.get_help())


class _Commands(TyperGroup):
    """The root: knows the names of all commands and imports the one that is called."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in COMMANDS:
            return _mounted(cmd_name)
        if cmd_name.startswith("-"):  # an unknown option: the parser says so
            return super().get_command(ctx, cmd_name)
        raise UsageError(
            i18n.text("cli.no-command", i18n.language(), name=cmd_name),
            slug="usage",
            hint=_near_command(cmd_name),
        )

    def get_help(self, ctx: Any) -> str:
        from srcmap.render.help import page

        about = [(name, i18n.text(f"cli.about.{name}", i18n.language())) for name in COMMANDS]
        return page(self, ctx, about)


def _mounted(name: str) -> Any:
    module = import_module(f"srcmap.commands.{name}")
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    module.register(app)
    return _localised(get_group(app).commands[name])


def _localised(command: Any) -> Any:
    """Say help strings that are keys, and give the command a help page with room for Chinese."""
    lang = i18n.language()
    command.help = _said(command.help, lang)
    command.epilog = _said(command.epilog, lang)
    for param in command.params:
        if hasattr(param, "help"):
            param.help = _said(param.help, lang)
    for child in getattr(command, "commands", {}).values():
        _localised(child)
    if not isinstance(command, _Commands):
        command.get_help = lambda ctx: _help_page(command, ctx)
    return command


def _help_page(command: Any, ctx: Any) -> str:
    from srcmap.render.help import page

    children = getattr(command, "commands", {})
    return page(command, ctx, [(name, child.help or "") for name, child in children.items()])


def _said(text: str | None, lang: str) -> str | None:
    return i18n.text(text, lang) if text and " " not in text and i18n.known(text, lang) else text


def _asked_language(argv: Sequence[str]) -> tuple[str, list[str]]:
    """Take `--lang` out, wherever it stands: help and errors need it before anything is parsed.

    An unknown language stays in, and the parser says what is wrong with it.
    """
    lang, rest = i18n.default_language(), list(argv)
    for place, size, value in _standing_anywhere(rest, "--lang"):
        if value in i18n.LANGUAGES:
            lang = value
            del rest[place : place + size]
    return lang, rest


def _look(argv: Sequence[str], lang: str) -> list[str]:
    """Take `--width` and `--no-pager` out, and heed them. UsageError for a width that is none."""
    from srcmap.render import console

    rest = list(argv)
    width = None
    for place, size, value in _standing_anywhere(rest, "--width"):
        if not (value.isascii() and value.isdecimal() and int(value) >= console.NARROWEST):
            message = i18n.text("cli.usage.width", lang, value=value)
            raise UsageError(message, slug="usage")
        width = int(value)
        del rest[place : place + size]
    end = rest.index("--") if "--" in rest else len(rest)
    paged = "--no-pager" not in rest[:end]
    console.use(width=width, paged=paged)
    return [word for n, word in enumerate(rest) if n >= end or word != "--no-pager"]


def _standing_anywhere(words: Sequence[str], option: str) -> list[tuple[int, int, str]]:
    """Find an option before `--`: its place, how many words it takes, its value; the last first."""
    end = list(words).index("--") if "--" in words else len(words)
    found = []
    for place in reversed(range(end)):
        if words[place] == option and place + 1 < end:
            found.append((place, 2, words[place + 1]))
        elif words[place].startswith(f"{option}="):
            found.append((place, 1, words[place].removeprefix(f"{option}=")))
    return found


def _near_command(name: str) -> str:
    from difflib import get_close_matches

    lang = i18n.language()
    near = get_close_matches(name, COMMANDS, n=1)
    if near:
        return i18n.text("cli.near-command", lang, name=near[0])
    return i18n.text("cli.all-commands", lang)


# -- telling ---------------------------------------------------------------------------------


def _tell(lines: Sequence[tuple[str, str]], lang: str) -> None:
    """Write `error: ...`, `hint: ...` to stderr, in a form that no encoding can break."""
    from srcmap.render.console import emit

    said = [f"{i18n.text(f'cli.{label}', lang)}{text}" for label, text in lines]
    emit("\n".join(said), sys.stderr)


def _tell_error(error: SrcmapError, lang: str) -> None:
    lines = [("error", _titled(error, lang))]
    if error.hint:
        lines.append(("hint", error.hint))
    lines.append(("more", f"docs/errors.md#{error.slug}"))
    _tell(lines, lang)


def _titled(error: SrcmapError, lang: str) -> str:
    """Lead in Chinese to a message that is in English: the facts in it are known only there."""
    key = f"errors.{error.slug}"
    said = any("\u4e00" <= char <= "\u9fff" for char in error.message)
    if lang == "en" or said or not i18n.known(key, lang):
        return error.message
    return f"{i18n.text(key, lang)} {error.message}"


def _tell_usage(error: Any, lang: str) -> int:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "srcmap"
    hint = i18n.text("cli.try-help", lang, command=path)
    _tell([("error", _usage_text(error, lang)), ("hint", hint)], lang)
    return 2


def _usage_text(error: Any, lang: str) -> str:
    """One of the parser's complaints, by its kind; its own words where the kind is unknown."""
    own = str(error.format_message()).rstrip(".")
    param = getattr(error, "param", None)
    kind = type(error).__name__
    if kind == "MissingParameter" and param is not None:
        name = str(param.metavar or param.opts[0]).strip("[]") if param.opts else own
        return i18n.text("cli.usage.missing", lang, name=name)
    if kind == "NoSuchOption":
        near = ", ".join(error.possibilities or ())
        key = "cli.usage.no-option-near" if near else "cli.usage.no-option"
        return i18n.text(key, lang, name=error.option_name, near=near)
    if kind == "BadParameter" and param is not None:
        return i18n.text("cli.usage.bad-value", lang, name="/".join(param.opts), reason=own)
    if kind == "BadOptionUsage":
        return i18n.text("cli.usage.bad-option", lang, name=error.option_name, reason=own)
    if "unexpected extra argument" in own:
        return i18n.text("cli.usage.extra", lang, words=own.rpartition("(")[2].rstrip(")"))
    return own


def _tell_bug(error: Exception, argv: Sequence[str], lang: str) -> int:
    from srcmap.crash import write_log

    short = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    log = write_log(error, argv)
    if log is None:
        import traceback

        traceback.print_exception(error)
        hint = i18n.text("cli.bug.no-log", lang)
    else:
        hint = i18n.text("cli.bug.log", lang, path=log)
    _tell([("error", i18n.text("cli.bug", lang, what=short)), ("hint", hint)], lang)
    return 4


def _silence_stdout() -> None:
    """Nobody reads on: keep Python from complaining when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
