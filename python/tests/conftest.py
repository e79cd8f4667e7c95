"""What all tests of the package share: a home of their own, scripts in processes, a master."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import determined

PACKAGE = Path(determined.__file__).absolute().parent.parent
PROJECT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(PROJECT / "tests/support"))


def pytest_addoption(parser):
    parser.addoption("--det", help="the program det; else the one beside the package")


def clean_environment():
    """Ours, without anything of a task that runs the tests, and with the package."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("DET_") or name == "DET_TEST_LONG"
    }
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        kept.pop(name, None)
    return {**kept, "PYTHONPATH": str(PACKAGE)}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Nothing of the user's, and nothing of a task that runs the tests."""
    for name in set(os.environ) - set(clean_environment()):
        monkeypatch.delenv(name)
    monkeypatch.setenv("DET_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", str(PACKAGE))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture(scope="session")
def det(request):
    """The program det."""
    found = request.config.getoption("--det")
    return found or next(
        str(folder / "det")
        for folder in (PACKAGE.parent, Path(sys.executable).parent)
        if (folder / "det").exists()
    )


class Script:
    """A program that is run as a user would, in a process of its own."""

    def __init__(self, folder):
        self.folder = folder

    def write(self, text, name="script.py"):
        path = self.folder / name
        path.write_text(textwrap.dedent(text))
        return path

    def start(self, text, *args, **env):
        path = self.write(text)
        return subprocess.Popen(
            [sys.executable, str(path), *args],
            env={**os.environ, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, text, *args, status=0, **env):
        """What it printed and what it complained about; it must end with the status."""
        process = self.start(text, *args, **env)
        out, err = process.communicate(timeout=120)
        assert process.returncode == status, err
        return out, err


@pytest.fixture
def script(tmp_path):
    return Script(tmp_path)


@pytest.fixture(scope="module")
def master(det, tmp_path_factory):
    """A master with two slots, as in tests/support/master.py, for all tests of a file.

    What tasks leave in caches is theirs: environments of an earlier run of the tests would be found there.
    """
    from master import Master

    env = {**clean_environment(), "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))}
    with Master(det, "--slots", "2", env=env) as running:
        yield running
