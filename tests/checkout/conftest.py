"""Real repositories and archives in temporary folders; no user's home, cache or configuration."""

from __future__ import annotations

import os
from pathlib import Path  # noqa: TC003

import pytest

from tests.checkout.world import Upstream

_OF_OTHERS = ("GIT_", "PIP_", "UV_", "XDG_", "SSL_", "http_", "https_", "HTTP_", "HTTPS_")


@pytest.fixture(autouse=True)
def _alone(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path_factory.mktemp("home")
    for name in list(os.environ):
        if name.startswith(_OF_OTHERS):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.setenv("SRCMAP_CACHE", str(home / "srcmap-cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("PIP_INDEX_URL", (home / "no-index").as_uri())
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream(tmp_path / "upstream")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "vendor_locks").mkdir(parents=True)
    return folder
