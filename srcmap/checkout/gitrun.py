"""Git as a subprocess that trusts nobody: no hooks, no prompts, no helpers that run programs.

The user's own configuration counts (`url.<base>.insteadOf`, proxies, credentials that need no
question), because that is how people behind a mirror work. The caller's `GIT_*` variables do
not: inside a hook or a rebase they point git at another repository.
"""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import contextmanager
from threading import Thread
from typing import IO, TYPE_CHECKING, Any

from srcmap.checkout.nouns import Progress, Silent
from srcmap.errors import CheckoutError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

# Without it GitPython refuses to be imported where git is missing, and we have a better sentence.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
import git

_KEPT = re.compile(
    r"GIT_(?:SSL_\w+|PROXY_\w+|HTTP_\w+|SSH|SSH_COMMAND|SSH_VARIANT|EXEC_PATH"  # how to connect
    r"|CONFIG_GLOBAL|CONFIG_SYSTEM|CONFIG_NOSYSTEM"  # where the user's configuration lies
    r"|CONFIG_COUNT|CONFIG_KEY_\d+|CONFIG_VALUE_\d+"  # or what it is
    r"|ALLOW_PROTOCOL|TRACE\w*|CURL_\w+)"
)

_SAFE: Sequence[str] = (
    f"core.hooksPath={os.devnull}",
    "protocol.ext.allow=never",
    "credential.interactive=false",
    "core.fsmonitor=false",
    "fetch.recurseSubmodules=false",
    "transfer.bundleURI=false",
    "http.lowSpeedLimit=1000",  # bytes a second, for a minute: a dead line is not waited for
    "http.lowSpeedTime=60",
    "gc.auto=0",
    "maintenance.auto=false",
)

_NO_PROMPTS = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",  # set and empty: git asks nobody, not even SSH_ASKPASS
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",  # git's messages are read here
    "LANGUAGE": "C",
}


NO_COMMIT = "that repository does not have the commit"
"""What `explain` makes of the most common refusal; a mirror that lags behind says so."""


class GitFailed(Exception):  # noqa: N818  # a result that the caller turns into advice
    """Git said no; `said` is the last of what it said, without progress."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said


def scrubbed(environ: dict[str, str]) -> dict[str, str]:
    """Give the environment that git gets: nothing that redirects it, nothing that lets it ask."""
    kept = {k: v for k, v in environ.items() if not k.startswith("GIT_") or _KEPT.fullmatch(k)}
    return {**kept, **_NO_PROMPTS}


def options() -> list[str]:
    """Give the `-c` options that every call gets."""
    return [part for setting in _SAFE for part in ("-c", setting)]


@contextmanager
def quiet_git() -> Iterator[None]:
    """Give this process, and so every git that GitPython starts, the scrubbed environment.

    GitPython can add variables for its children but cannot take any away.
    """
    before = dict(os.environ)
    after = scrubbed(before)
    try:
        _become(after)
        yield
    finally:
        _become(before)


def _become(environ: dict[str, str]) -> None:
    for name in set(os.environ) - set(environ):
        del os.environ[name]
    os.environ.update(environ)


def run_git(
    arguments: Sequence[str],
    cwd: Path | None = None,
    *,
    stdin: bytes = b"",
    progress: Progress | None = None,
) -> str:
    """Run one git command and give its stdout. GitFailed when it fails.

    Use inside `quiet_git`. Progress that git writes goes to `progress` as it comes.
    """
    extra: dict[str, Any] = {"start_new_session": True} if os.name == "posix" else {}
    with tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        try:
            process = git.Git(cwd).execute(
                ["git", *options(), *arguments],
                istream=given,
                as_process=True,
                **extra,  # without a terminal, ssh cannot ask either
            )
        except git.GitCommandNotFound as error:
            raise no_git() from error
        return _listen(process, progress or Silent())


def _listen(process: Any, progress: Progress) -> str:
    # stdout is read aside: a full pipe on either side would stop git for ever.
    output: list[bytes] = []
    reader = Thread(target=lambda: output.append(process.stdout.read()), daemon=True)
    reader.start()
    watch = _Watch(progress)
    try:
        for line in _lines(process.stderr):
            watch.hear(line)
    except BaseException:
        process.proc.terminate()  # an interrupt: git is in a session of its own and has not heard
        raise
    finally:
        reader.join()
        status = process.proc.wait()
        process.stdout.close()
        process.stderr.close()
    if status != 0:
        said = "\n".join(watch.said[-8:])
        raise _full_disk(said) or GitFailed(said)
    return b"".join(output).decode("utf-8", "surrogateescape")


def _full_disk(said: str) -> CheckoutError | None:
    """Git's word for it would have us try another source, which could not be written either."""
    reason = next((words for words in _FULL if words in said), None)
    if reason is None:
        return None
    hint = "free some space, then run the same command again"
    return CheckoutError(f"git cannot write: {reason}", slug="disk", hint=hint)


_FULL = ("No space left on device", "Disk quota exceeded")


def _lines(stream: IO[bytes]) -> Iterator[str]:
    """Lines as git writes them, the progress that ends in a carriage return included."""
    rest = b""
    while chunk := os.read(stream.fileno(), 4096):
        *whole, rest = re.split(rb"[\r\n]", rest + chunk)
        yield from (line.decode("utf-8", "replace") for line in whole)
    yield rest.decode("utf-8", "replace")


class _Watch(git.RemoteProgress):
    """Passes on the one figure that grows with the download, and keeps what is no progress."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self.said: list[str] = []
        self._progress = progress

    def hear(self, line: str) -> None:
        if line.startswith(("error:", "fatal:")):
            self.said.append(line.strip())
        elif line.strip():
            self._parse_progress_line(line)

    def line_dropped(self, line: str) -> None:
        self.said.append(line.strip())

    def update(
        self,
        op_code: int,
        cur_count: str | float,
        max_count: str | float | None = None,
        message: str = "",  # noqa: ARG002  # the base has it
    ) -> None:
        if op_code & self.RECEIVING and max_count:
            self._progress.advance_to(float(cur_count) / float(max_count))


def no_git() -> CheckoutError:
    """Phrase what to say where there is no git."""
    return CheckoutError(
        "the program 'git' is not installed, or not on PATH",
        slug="git",
        hint="install git; 'srcmap doctor' shows what else is missing",
    )


def explain(said: str) -> str:
    """Say in a few words what git said in many."""
    for words, meaning in _MEANINGS:
        if words in said:
            return meaning
    lines = [line for line in said.splitlines() if not line.startswith("warning:")]
    fatal = [line for line in lines if line.startswith("fatal:")]
    return (fatal or lines or ["git failed without a word"])[-1].removeprefix("fatal: ")


_MEANINGS: Sequence[tuple[str, str]] = (
    ("not our ref", NO_COMMIT),
    ("could not read Username", "it wants a user name, and srcmap lets nobody ask"),
    ("could not read Password", "it wants a password, and srcmap lets nobody ask"),
    ("terminal prompts disabled", "it wants a password, and srcmap lets nobody ask"),
    ("Authentication failed", "it refused the credentials that git is set up with"),
    ("Could not resolve host", "its host name cannot be resolved; is the network there?"),
    ("Connection refused", "the connection was refused"),
    ("does not appear to be a git repository", "there is no git repository"),
    ("Repository not found", "there is no git repository"),
    ("' not found", "there is no git repository"),
    ("transport 'ext' not allowed", "URLs that run programs are refused"),
    ("dubious ownership", "it belongs to another user, whom git does not trust"),
)
