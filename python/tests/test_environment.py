"""Which Python a task has, and which packages."""

import io
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

CONFIG = """
entrypoint: python3 train.py
max_restarts: 0
searcher: {name: single, metric: loss, max_length: {batches: 1}}
"""
SHOW = "import os, sys; print('runs', sys.executable, os.environ.get('DET_PYTHON'), flush=True)\n"


def wheel(version, text=None):
    """A package that can be installed without a network."""
    info = f"mini-{version}.dist-info"
    files = {
        "mini.py": text or f"version = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: mini\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)  # of no date: the same bytes each time
    return out.getvalue()


@pytest.fixture
def environment(tmp_path):
    """A virtual environment of the user's."""
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    return tmp_path / "env"


def logged(master, e, text):
    trial = master.trials(e)[0]["id"]
    master.wait_line(trial, text)
    return next(line for line in master.lines(trial) if text in line)


def test_a_task_has_the_interpreter_that_its_configuration_names(master, environment):
    text = CONFIG + f"environment: {{python: {environment}}}\n"
    e = master.create(text, {"train.py": SHOW})
    master.wait_experiment(e, "STATE_COMPLETED")
    interpreter = str(environment / "bin/python3")
    assert logged(master, e, "runs") == f"runs {interpreter} {interpreter}"


def test_an_interpreter_that_is_not_there_is_named(master):
    e = master.create(CONFIG + "environment: {python: /nowhere/python3}\n", {"train.py": SHOW})
    master.wait_experiment(e, "STATE_ERROR")
    assert "cannot use '/nowhere/python3' as environment.python" in logged(master, e, "cannot use")


def create(det, master, folder, *args, **env):
    """det experiment create, as a user of that environment calls it."""
    command = [det, "-m", "http://" + master.host, "experiment", "create", "const.yaml", ".", *args]
    home = {"DET_HOME": str(master.data), **{name: value for name, value in env.items() if value}}
    ran = subprocess.run(command, cwd=folder, env={**os.environ, **home}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_interpreter_that_det_was_called_from_is_recorded(det, master, environment, tmp_path):
    code = tmp_path / "code"
    code.mkdir()
    (code / "const.yaml").write_text(CONFIG)
    (code / "train.py").write_text(SHOW)
    create(det, master, code, "--follow", VIRTUAL_ENV=str(environment))
    e = master.get("experiments?orderBy=ORDER_BY_DESC&sortBy=id&limit=1")["experiments"][0]["id"]
    interpreter = str(environment / "bin/python3")
    assert master.get(f"experiments/{e}")["config"]["environment"]["python"] == interpreter
    assert interpreter in logged(master, e, "runs")
    described = subprocess.run(
        [det, "experiment", "describe", str(e)],
        env={**os.environ, "DET_HOME": master.data},
        capture_output=True,
        text=True,
    )
    assert interpreter in described.stdout


def test_requirements_are_installed_once_and_their_log_is_seen(master):
    files = {
        "train.py": "import mini, sys; print('has', mini.version, sys.executable, flush=True)\n",
        "requirements.txt": "# what it needs\n./mini-1.0-py3-none-any.whl\n",
        "mini-1.0-py3-none-any.whl": wheel("1.0"),
    }
    text = CONFIG.replace("{name: single,", "{name: random, max_trials: 2,")
    text += f"environment: {{python: {sys.executable}, requirements: requirements.txt}}\n"
    e = master.create(text, files)
    master.wait_experiment(e, "STATE_COMPLETED")
    trials = [t["id"] for t in master.trials(e)]
    lines = [line for t in trials for line in master.lines(t)]
    assert sum("Successfully installed mini-1.0" in line for line in lines) == 1
    interpreters = {line for line in lines if line.startswith("has 1.0 ")}
    assert len(interpreters) == 1

    again = master.create(text, {**files, "other.txt": "more"})
    master.wait_experiment(again, "STATE_COMPLETED")
    lines = master.lines(master.trials(again)[0]["id"])
    assert not any("Successfully installed" in line for line in lines)

    files["mini-1.0-py3-none-any.whl"] = wheel("1.0", text="version = 'mended'\n")
    mended = master.create(text, files)
    master.wait_experiment(mended, "STATE_COMPLETED")
    logged(master, mended, "has mended")

    files["requirements.txt"] = "./mini-2.0-py3-none-any.whl\n"
    files["mini-2.0-py3-none-any.whl"] = wheel("2.0")
    other = master.create(text, files)
    master.wait_experiment(other, "STATE_COMPLETED")
    assert logged(master, other, "has 2.0").split()[-1] != next(iter(interpreters)).split()[-1]


def test_requirements_that_cannot_be_met_end_the_task_with_what_pip_says(master):
    text = (
        CONFIG
        + f"environment: {{python: {sys.executable}, requirements: ['./missing-1.0-py3-none-any.whl']}}\n"
    )
    e = master.create(text, {"train.py": SHOW})
    master.wait_experiment(e, "STATE_ERROR")
    logged(master, e, "could not be made with")
    logged(master, e, "missing-1.0")


def test_packages_of_the_interpreter_stay_visible(master):
    pytest.importorskip("torch")
    files = {
        "train.py": "import torch, mini; print('both', flush=True)\n",
        "mini-1.0-py3-none-any.whl": wheel("1.0"),
    }
    text = (
        CONFIG + f"environment: {{python: {sys.executable}, requirements: ['./mini-1.0-py3-none-any.whl']}}\n"
    )
    e = master.create(text, files)
    master.wait_experiment(e, "STATE_COMPLETED")
    logged(master, e, "both")


def test_a_module_in_two_languages_is_an_error_that_names_both(det, tmp_path):
    run = str(Path(det).with_name("det-run"))
    for name in ("model_def.c", "model_def.py"):
        (tmp_path / name).write_text("")
    ran = subprocess.run([run, "model_def:Trial"], capture_output=True, text=True)
    assert ran.returncode == 1
    assert "both 'model_def.c' and 'model_def.py' could be meant" in ran.stderr


def test_an_interpreter_without_the_package_says_what_to_do(det, tmp_path, environment):
    run = str(Path(det).with_name("det-run"))
    (tmp_path / "model_def.py").write_text("")
    bare = {**os.environ, "DET_PYTHON": str(environment / "bin/python3"), "PYTHONPATH": ""}
    ran = subprocess.run([run, "model_def:Trial"], env=bare, capture_output=True, text=True)
    assert ran.returncode == 1
    assert "has no package determined: install it there" in ran.stderr
