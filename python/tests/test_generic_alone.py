"""The Generic API in programs that no master has started."""

import contextlib
import json
import os
import signal

import pytest

import determined as det


@pytest.fixture
def context(tmp_path):
    with det.generic.init(hparams={"learning_rate": 0.1}, folder=str(tmp_path / "run")) as made:
        yield made


def reports(folder):
    """The requests in the journal of a run: (path, body)."""
    (journal,) = folder.glob("*.journal")
    lines = [line.split(" ", 3) for line in journal.read_text().splitlines()]
    return [(path, json.loads(body)) for _, _, path, body in lines if path.startswith("/")]


def metrics(folder):
    return [
        report for path, body in reports(folder) if path.endswith("metrics") for report in body["reports"]
    ]


def test_metrics_are_on_disk_when_the_call_returns(context, tmp_path):
    context.training.report_training_metrics(batches_trained=1, metrics={"loss": 0.5})
    context.training.report_validation_metrics(batches_trained=1, metrics={"error": [0.1, 0.2]})
    context.training.report_metrics("inference", 1, {"n": 3})
    found = [
        (report["group"], report["stepsCompleted"], report["metrics"]) for report in metrics(tmp_path / "run")
    ]
    assert found == [
        ("training", 1, {"loss": 0.5}),
        ("validation", 1, {"error": [0.1, 0.2]}),
        ("inference", 1, {"n": 3}),
    ]


def test_a_checkpoint_is_there_as_a_whole_or_not_at_all(context, tmp_path):
    with context.checkpoint.save_path(metadata={"who": "me"}) as path, open(path + "/state", "w") as file:
        file.write("7")
    with pytest.raises(ZeroDivisionError), context.checkpoint.save_path() as broken:
        1 / 0
    assert not os.path.exists(broken)
    (folder,) = (tmp_path / "run/checkpoints").iterdir()
    assert (folder / "state").read_text() == "7"
    assert json.loads((folder / "metadata.json").read_text()) == {"who": "me"}
    assert (folder / "manifest.json").exists()


def test_the_search_is_one_operation(context):
    op = context.training.basic_search()
    assert (op.length, op.unit, op.epochs) == (1, "epochs", 1)
    op.report_progress(0.5)
    op.complete(0.25)
    with pytest.raises(det.errors.WrongState):
        op.complete(0.25)
    assert list(context.training.search_ops()) == []


def test_a_length_in_another_unit_is_refused(tmp_path):
    with det.generic.init(max_length=det.Batches(7), folder=str(tmp_path / "run")) as context:
        op = context.training.basic_search()
        assert op.batches == 7
        with pytest.raises(det.errors.WrongState, match="configured in batches, not in epochs"):
            op.epochs


def test_operations_must_be_completed_before_the_next(context):
    operations = context.training.search_ops()
    next(operations)
    with pytest.raises(det.errors.WrongState, match="was not completed"):
        next(operations)


def test_a_missing_hyperparameter_is_named_with_the_ways_to_give_it(context):
    with pytest.raises(
        KeyError, match="'learning_rat' is not defined .did you mean 'learning_rate'"
    ) as caught:
        context.training.hparams["learning_rat"]
    for way in ("init(hparams=", "DET_CONFIG=", "--local"):
        assert way in str(caught.value)


CONFIG = """
hyperparameters:
    learning_rate: 0.5
    layers: {type: int, minval: 1, maxval: 4}
    optimizer: {momentum: 0.9}
searcher: {name: random, metric: loss, max_length: {epochs: 7}, max_trials: 3}
reproducibility: {experiment_seed: 42}
data: {url: here}
entrypoint: python3 train.py
"""


def check_configured(context):
    assert context.training.hparams["learning_rate"] == 0.5
    assert context.training.hparams["optimizer"] == {"momentum": 0.9}
    assert context.training.trial_seed == 42
    assert context.training.basic_search().epochs == 7
    assert context.config_data == {"url": "here"}
    with pytest.raises(KeyError, match="'layers' is to be searched for"):
        context.training.hparams["layers"]


def test_the_configuration_may_be_a_file(tmp_path):
    (tmp_path / "const.yaml").write_text(CONFIG)
    with det.generic.init(config=tmp_path / "const.yaml") as context:
        check_configured(context)


def test_det_config_names_the_configuration(tmp_path, monkeypatch):
    (tmp_path / "const.yaml").write_text(CONFIG)
    monkeypatch.setenv("DET_CONFIG", "const.yaml")
    with det.generic.init() as context:
        check_configured(context)


def test_arguments_go_before_the_configuration(tmp_path):
    (tmp_path / "const.yaml").write_text(CONFIG)
    hparams = {"layers": 2, "optimizer": {"nesterov": True}}
    with det.generic.init(config="const.yaml", hparams=hparams, max_length=det.Batches(3), seed=5) as context:
        assert context.training.hparams["layers"] == 2
        assert context.training.hparams["optimizer"] == {"momentum": 0.9, "nesterov": True}
        assert context.training.basic_search().batches == 3
        assert context.training.trial_seed == 5


def test_a_configuration_with_mistakes_is_refused_with_their_places(tmp_path):
    (tmp_path / "const.yaml").write_text("searcher: {name: singel}\nhyperparameters: {a: 1}\n")
    with pytest.raises(ValueError, match="const.yaml:1:.*singel"):
        det.generic.init(config="const.yaml")
    with pytest.raises(LookupError, match="no configuration 'nowhere.yaml'"):
        det.generic.init(config="nowhere.yaml")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda c: c.training.report_training_metrics(1, [1]), ValueError, "must be a JSON object"),
        (lambda c: c.training.report_training_metrics(-1, {}), ValueError, "at least 0"),
        (lambda c: c.training.report_metrics("a.b", 1, {}), ValueError, "dot"),
        (lambda c: c.training.report_training_metrics("one", {}), TypeError, "integer"),
        (lambda c: c.training.basic_search().complete("good"), ValueError, "good"),
        (lambda c: c.training.basic_search().report_progress(-1), ValueError, "at least 0"),
        (lambda c: c.distributed.shard_batch_size("8"), TypeError, "int"),
        (lambda c: c.distributed.shard_batch_size(0), ValueError, "leaves nothing"),
        (lambda c: c.training.set_status(3), TypeError, "str"),
        (lambda c: det.generic.init(max_length=3), TypeError, "Epochs"),
        (lambda c: det.generic.init(hparams={"a": object()}), TypeError, r"hparams\['a'\]"),
        (lambda c: det.Batches(-1), ValueError, "at least 0"),
        (lambda c: det.Batches(True), TypeError, "int"),
        (lambda c: det.Batches(["x"]), TypeError, "'x'"),
    ],
)
def test_nonsense_is_refused(context, call, error, message):
    with pytest.raises(error, match=message):
        call(context)


def test_a_closed_context_says_so(context):
    context.close()
    with pytest.raises(det.errors.WrongState, match="closed already"):
        context.training.report_training_metrics(1, {"loss": 1})
    context.close()


def test_there_is_no_cluster(context):
    assert det.get_cluster_info() is None
    assert context.latest_checkpoint is None
    assert context.should_preempt() is False
    assert context.should_preempt(block=False) is False
    assert context.training.get_experiment_best_validation() is None
    assert repr(context) == "GenericContext(local, rank 0 of 1)"


def test_threads_take_turns(script):
    text = """
        import threading
        import determined as det
        context = det.generic.init(folder="run")
        def report(first):
            for i in range(100):
                context.training.report_training_metrics(first + i, {"loss": i})
        threads = [threading.Thread(target=report, args=(1000 * n,)) for n in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
    """
    script.run(text)
    assert len(metrics(script.folder / "run")) == 400


def test_a_forked_worker_is_told_that_it_is_one(script):
    text = """
        import os
        import determined as det
        context = det.generic.init(folder="run")
        context.training.report_training_metrics(1, {"loss": 1})
        if os.fork() == 0:
            try:
                context.training.report_training_metrics(2, {"loss": 1})
            except det.errors.WrongState as error:
                print(error)
        else:
            os.wait()
    """
    out, _ = script.run(text)
    assert "this one was forked from it" in out
    assert len(metrics(script.folder / "run")) == 1


def test_ctrl_c_ends_a_program_that_waits_for_its_master(script):
    text = """
        import determined as det
        context = det.generic.init()
        print("waiting", flush=True)
        context.training.basic_search()
    """
    nobody = "http://127.0.0.1:9"
    process = script.start(
        text, DET_MASTER=nobody, DET_ALLOCATION_ID="a", DET_RUN_DIR=str(script.folder / "run")
    )
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in err


def test_ten_thousand_errors_leave_nothing_behind(context):
    import gc
    import resource

    def grow():
        for _ in range(10_000):
            with contextlib.suppress(ValueError):
                context.training.report_training_metrics(-1, {"loss": [1, 2]})
        gc.collect()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    grow()
    before = grow()
    assert grow() - before < 1024  # kilobytes
