"""Errors end at the line of the user who made them."""

import inspect
import pydoc

import pytest

import determined as det
from determined._det import public


def last_line(err):
    """The line of code above the message."""
    lines = [line.strip() for line in err.splitlines() if line.strip(" ~^")]
    return lines[-2]


def test_an_error_of_ours_ends_at_the_users_line(script):
    _, err = script.run("import determined as det\ndet.Epochs('ten')", status=1)
    assert last_line(err) == "det.Epochs('ten')"
    assert "TypeError" in err


def test_an_error_of_c_ends_at_the_users_line(script):
    text = """
        import determined as det
        context = det.generic.init()
        context.training.report_training_metrics(-1, {})
    """
    _, err = script.run(text, status=1)
    assert last_line(err) == "context.training.report_training_metrics(-1, {})"
    assert "determined.errors.InvalidArgument: batches_trained must be at least 0, found -1" in err


def test_an_error_of_the_users_own_code_keeps_its_frames(script):
    text = """
        import determined as det
        class Broken:
            def tolist(self):
                return 1 / 0
        context = det.generic.init()
        context.training.report_training_metrics(1, {"loss": Broken()})
    """
    _, err = script.run(text, status=1)
    assert last_line(err) == "return 1 / 0"


def test_all_frames_are_there_for_who_wants_them(script):
    _, err = script.run("import determined as det\ndet.Epochs('ten')", status=1, DET_FULL_TRACEBACK="1")
    assert "_lengths.py" in err


def test_functions_keep_their_names_signatures_and_documentation():
    assert det.generic.init.__name__ == "init"
    assert "hparams" in inspect.signature(det.generic.init).parameters
    assert "Finds out where it runs" in pydoc.plain(pydoc.render_doc(det.generic.init))
    assert "report_training_metrics(self, batches_trained" in pydoc.plain(
        pydoc.render_doc(det.generic.TrainingContext)
    )


def test_a_decorated_function_is_a_method():
    class Thing:
        @public
        def name(self):
            """Its name."""
            return type(self).__name__

    assert Thing().name() == "Thing"
    assert Thing.name(Thing()) == "Thing"
    with pytest.raises(TypeError, match="decorates functions"):
        public(3)
