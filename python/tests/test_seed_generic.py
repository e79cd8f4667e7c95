"""The scripts of the Generic API's document, alone and under a master."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from master import wait_for

SEED = Path(__file__).parent / "seeds/generic"
torch = pytest.importorskip("torch")


LONG = bool(os.environ.get("DET_TEST_LONG"))
EPOCHS = 50 if LONG else 5


def files(step):
    """The code of a step, as its folder has it; with fewer epochs unless there is time."""
    code = {name: (SEED / name).read_text() for name in ("model.py", "data.py")}
    return {**code, "train.py": (SEED / step).read_text().replace("EPOCHS = 50", f"EPOCHS = {EPOCHS}")}


def config(name, *changes, python=sys.executable):
    """A configuration with the interpreter that runs the tests, and shorter where that shows the same."""
    text = (SEED / name).read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text + f"\nenvironment: {{python: {python}}}\nmax_restarts: 0\n"


def losses(master, trial, group):
    """[(batches, loss)] as the master has them."""
    found = master.get(f"trials/{trial}/series?group={group}&name=loss&maxDatapoints=1000")["data"]
    return [(point[0], point[2]) for point in found]


def run_alone(tmp_path, step, **env):
    for name, text in files(step).items():
        (tmp_path / name).write_text(text)
    ran = subprocess.run(
        [sys.executable, "train.py"], env={**os.environ, **env}, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_starting_point_runs_alone(tmp_path):
    (tmp_path / "checkpoint_dir").mkdir()
    lines = run_alone(tmp_path, "step0.py").splitlines()
    assert len(lines) == 2 * EPOCHS
    assert lines[0].startswith("after epoch 0, train_loss=")
    assert lines[-1].startswith(f"after epoch {EPOCHS - 1}, eval_loss=")
    assert "weight" in torch.load(tmp_path / "checkpoint_dir/my_checkpoint")


def test_step_1_runs_alone_and_keeps_metrics_and_checkpoint(tmp_path, home):
    run_alone(tmp_path, "step1.py")
    (run,) = (home / "local").iterdir()
    (journal,) = run.glob("*.journal")
    lines = [line for line in journal.read_text().splitlines() if "/metrics " in line]
    reports = [report for line in lines for report in json.loads(line.split(" ", 3)[3])["reports"]]
    assert [report["stepsCompleted"] for report in reports] == [64 * (i // 2 + 1) for i in range(2 * EPOCHS)]
    (checkpoint,) = (run / "checkpoints").iterdir()
    assert "weight" in torch.load(checkpoint / "my_checkpoint")


@pytest.mark.parametrize("step", ["step2.py", "step3.py", "search_ops.py"])
def test_later_steps_run_alone_with_a_configuration(tmp_path, step, home):
    const = "hyperparameters: {batch_size: 32, learning_rate: 0.001}\nentrypoint: x\n"
    (tmp_path / "const.yaml").write_text(const + "searcher: {name: single, max_length: {epochs: 3}}\n")
    run_alone(tmp_path, step, DET_CONFIG="const.yaml")
    (run,) = (home / "local").iterdir()
    assert list((run / "checkpoints").iterdir())


def test_the_starting_point_runs_unmodified_under_a_master(master, tmp_path):
    folder = tmp_path / "bind"
    folder.mkdir()
    text = config("my_config_0.yaml", ("/my/path/to/checkpoints", str(folder)))
    e = master.create(text, files("step0.py"))
    master.wait_experiment(e, "STATE_COMPLETED")
    trial = master.trials(e)[0]
    master.wait_line(trial["id"], f"after epoch {EPOCHS - 1}, eval_loss=")
    assert (folder / "my_checkpoint").exists()
    assert master.get(f"experiments/{e}")["config"]["reproducibility"]["experiment_seed"] > 0


def test_step_1_metrics_and_checkpoints_are_tracked(master):
    e = master.create(config("my_config_1.yaml"), files("step1.py"))
    master.wait_experiment(e, "STATE_COMPLETED")
    trial = master.trials(e)[0]["id"]
    batches = [64 * (epoch + 1) for epoch in range(EPOCHS)]
    assert [b for b, _ in losses(master, trial, "training")] == batches
    found = losses(master, trial, "validation")
    assert [b for b, _ in found] == batches
    # mean squared error of one weight that starts at w: each batch multiplies (1 - w) by 1 - 2 lr, and rounds
    # w, which is nobody's choice in this step and may be near 1: by 2^-25 each time, perhaps always up
    n = 64 * (EPOCHS - 1)
    rounding = 2 * n * 2**-25 / found[-1][1] ** 0.5
    assert found[-1][1] / found[0][1] == pytest.approx((1 - 2e-5) ** (2 * n), rel=1e-4 + rounding)
    assert len(master.get(f"trials/{trial}/checkpoints")["checkpoints"]) == 1


def test_step_2_searches(master):
    changes = (
        ("epochs: 50", "epochs: 2"),
        ("max_trials: 10", "max_trials: 3"),
        ("minval: 1\n", "minval: 30\n"),
    )
    e = master.create(config("my_config_2.yaml", *changes), files("step2.py"))
    master.wait_experiment(e, "STATE_COMPLETED")
    trials = master.trials(e)
    assert len(trials) == 3
    seeds = {master.trial(t["id"])["seed"] for t in trials}
    assert len(seeds) == 3
    for t in trials:
        hparams = master.trial(t["id"])["hparams"]
        assert 30 <= hparams["batch_size"] <= 64
        assert 1e-5 <= hparams["learning_rate"] <= 1e-3
        assert len(losses(master, t["id"], "validation")) == 2


CONSTANT = (
    ("type: int\n        minval: 1\n        maxval: 64", "type: const\n        val: 32"),
    (
        "type: log\n        base: 10\n        minval: -5  # 10^-5 = .00001\n"
        "        maxval: -3  # 10^-5 = .001",
        "type: const\n        val: 0.001",
    ),
    ('name: "random"', 'name: "single"'),
    ("    max_trials: 10\n", ""),
)


def final_weight(master, trial):
    newest = master.get(f"trials/{trial}/checkpoints?sortBy=stepsCompleted&orderBy=ORDER_BY_DESC")[
        "checkpoints"
    ][0]
    state = torch.load(Path(master.data) / "checkpoints" / newest["uuid"] / "my_checkpoint")
    assert state["epoch"] == 11
    return state["model"]["weight"].item()


def test_step_3_goes_on_after_a_kill_and_after_a_pause(master):
    text = config("my_config_2.yaml", *CONSTANT, ("epochs: 50", "epochs: 12"), python=sys.executable)
    text = text.replace("max_restarts: 0", "max_restarts: 3\nreproducibility: {experiment_seed: 7}")
    straight = master.create(text, files("step3.py"))
    killed = files("step3.py")
    killed["train.py"] = killed["train.py"].replace(
        "        # train model\n",
        "        if epoch == 4 and context.latest_checkpoint is None:\n"
        "            import os, signal\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n",
        1,
    )
    with_kill = master.create(text, killed)
    paused = master.create(text, files("step3.py"))
    trial = wait_for(lambda: master.trials(paused), "a trial")[0]["id"]
    wait_for(lambda: len(losses(master, trial, "validation")) >= 3, "some epochs")
    master.post(f"experiments/{paused}/pause")
    wait_for(lambda: all(a["state"] == "STATE_TERMINATED" for a in master.allocations(trial)), "the pause")
    assert 0 < len(losses(master, trial, "validation")) <= 12
    master.post(f"experiments/{paused}/activate")
    for e in (straight, with_kill, paused):
        master.wait_experiment(e, "STATE_COMPLETED")
    weights = [final_weight(master, master.trials(e)[0]["id"]) for e in (straight, with_kill, paused)]
    assert weights[0] == weights[1] == weights[2]
    assert master.trial(master.trials(with_kill)[0]["id"])["restarts"] == 1
    for e in (straight, with_kill, paused):
        assert [b for b, _ in losses(master, master.trials(e)[0]["id"], "validation")] == [
            64 * i for i in range(1, 13)
        ]


def test_the_advanced_form_trains_on_without_a_restart(master):
    text = config(
        "my_config_2.yaml",
        ("epochs: 50", "epochs: 8"),
        (
            "    max_trials: 10\n",
            "    max_trials: 3\n    metric: loss\n    divisor: 2\n    bracket_rungs: [2]\n"
            "    max_concurrent_trials: 1\n",
        ),
        ('name: "random"', 'name: "adaptive_asha"'),
        ("minval: 1\n", "minval: 60\n"),
    )
    # Whoever ends a rung as the best of at least two goes on at once: with this seed, a later one is better.
    text += "reproducibility: {experiment_seed: 2}\n"
    e = master.create(text, files("search_ops.py"))
    master.wait_experiment(e, "STATE_COMPLETED")
    runs = [
        (len(losses(master, t["id"], "validation")), len(master.allocations(t["id"])))
        for t in master.trials(e)
    ]
    assert (2, 1) in runs  # two lengths, one process
