"""The Generic API: any training program, with metrics, checkpoints, search, pause and resume.

    import determined as det

    context = det.generic.init()
    learning_rate = context.training.hparams["learning_rate"]
    op = context.training.basic_search()
    for epoch in range(op.epochs):
        loss = train_one_epoch()
        context.training.report_validation_metrics(batches_trained=epoch + 1, metrics={"loss": loss})
        with context.checkpoint.save_path() as path:
            save(path)
    op.complete(loss)

The same program runs alone and as a task of a master, in any framework: it deals in paths, numbers and
dicts only. Alone, metrics and checkpoints become files (``context.folder`` says where).
"""

from __future__ import annotations

import contextlib
import logging
import sys
import weakref
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Callable

from determined import _det
from determined._det import public
from determined._distributed import DistributedContext
from determined._hparams import Hyperparameters
from determined._lengths import Length
from determined._settings import Config, is_task, read_settings
from determined.errors import DetError, InvalidHP, WrongState

__all__ = [
    "CheckpointContext",
    "GenericContext",
    "SavedCheckpoint",
    "SearcherOperation",
    "TrainingContext",
    "init",
]

logger = logging.getLogger("determined")

_PATIENCE_AFTER_ERRORS = 5.0  # seconds


class SearcherOperation:
    """How long to train, in total, since the trial's first batch."""

    def __init__(
        self, op: _det.Operation | None, length: int, unit: str, distributed: DistributedContext
    ) -> None:
        self._op = op  # None on ranks other than the chief
        self._distributed = distributed
        self.length = length
        """The length, whatever its unit is."""
        self.unit = unit
        """``'epochs'``, ``'batches'``, ``'records'`` or ``'units'``."""

    def _length_in(self, unit: str) -> int:
        if self.unit not in (unit, "units"):
            raise WrongState(f"the length of training was configured in {self.unit}, not in {unit}")
        return self.length

    @property
    def epochs(self) -> int:
        """The length, if it was configured in epochs."""
        return self._length_in("epochs")

    @property
    def batches(self) -> int:
        """The length, if it was configured in batches."""
        return self._length_in("batches")

    @property
    def records(self) -> int:
        """The length, if it was configured in records."""
        return self._length_in("records")

    def _chief(self, what: str) -> _det.Operation:
        if self._op is None:
            raise WrongState(f"{what} is for rank 0 only; this is rank {self._distributed.rank}")
        return self._op

    @public
    def report_progress(self, length: float) -> None:
        """Tells how much has been trained so far, in the unit of the length. For people only."""
        self._chief("reporting progress").report_progress(float(length))

    @public
    def complete(self, searcher_metric: Any) -> None:
        """Tells that the length is reached, with this value of the searcher's metric. Once."""
        self._chief("completing an operation").complete(float(searcher_metric))

    report_completed = complete

    @property
    def is_complete(self) -> bool:
        """Whether :meth:`complete` was called."""
        return self._op is not None and self._op.is_complete

    def __repr__(self) -> str:
        return f"SearcherOperation({self.length} {self.unit})"


class TrainingContext:
    """What is known about the trial, and what it has to tell."""

    def __init__(self, context: GenericContext, hparams: Hyperparameters) -> None:
        self._core = context._core
        self._distributed = context.distributed
        self.hparams: Hyperparameters = hparams
        """Hyperparameters of this trial."""
        info = self._core.info
        self.trial_seed: int = info["trial_seed"]
        """Where all randomness of this trial should start."""
        self.trial_id: int = info["trial_id"]
        self.experiment_id: int = info["experiment_id"]

    @public
    def report_training_metrics(self, batches_trained: int, metrics: Mapping[str, Any]) -> None:
        """Reports metrics of training. They are durable when it returns.

        Values may be numbers, tensors and arrays of any framework, texts, and lists and dicts of them.
        """
        self._core.report_metrics("training", batches_trained, metrics)

    @public
    def report_validation_metrics(self, batches_trained: int, metrics: Mapping[str, Any]) -> None:
        """Reports metrics of a validation. They are durable when it returns."""
        self._core.report_metrics("validation", batches_trained, metrics)

    @public
    def report_metrics(self, group: str, batches_trained: int, metrics: Mapping[str, Any]) -> None:
        """Reports metrics of any group."""
        self._core.report_metrics(group, batches_trained, metrics)

    @public
    def set_status(self, status: str) -> None:
        """Tells people what the trial is doing."""
        if self._distributed.is_chief:
            self._core.set_status(status)

    @public
    def get_experiment_best_validation(self) -> float | None:
        """The best value of the searcher's metric in the whole experiment; None: there is none yet."""
        return self._core.best_validation()

    def _next_operation(self) -> SearcherOperation | None:
        op = self._core.next_operation() if self._distributed.is_chief else None
        found = self._distributed.broadcast((op.length, op.unit) if op else None)
        if found is None:
            return None
        length, unit = found
        return SearcherOperation(op, length, unit, self._distributed)

    @public
    def basic_search(self) -> SearcherOperation:
        """How long to train. On several ranks, all of them call it.

        If the searcher has nothing (more) for this trial to do, the operation has length 0.
        """
        op = self._next_operation()
        return op if op else SearcherOperation(None, 0, "units", self._distributed)

    @public
    def search_ops(self) -> Iterator[SearcherOperation]:
        """Operations of the searcher, one after the other, with growing lengths.

        A trial that goes on with the next one saves the searcher a restart. Each must be completed before
        the next is asked for. On several ranks, all of them iterate.
        """
        while True:
            op = self._next_operation()
            if op is None:
                return
            yield op


class SavedCheckpoint:
    """A checkpoint that is complete: ``with checkpoint as path:`` gives its folder, to be read only."""

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def uuid(self) -> str:
        """Its name."""
        return self.path.rstrip("/").rpartition("/")[2]

    def __enter__(self) -> str:
        return self.path

    def __exit__(self, *exception: object) -> None:
        pass

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"SavedCheckpoint({self.path!r})"


class CheckpointContext:
    """Saves checkpoints."""

    def __init__(self, core: _det.Core) -> None:
        self._core = core

    @public
    @contextlib.contextmanager
    def save_path(self, metadata: Mapping[str, Any] | None = None) -> Iterator[str]:
        """A new, empty folder to save anything into.

        At the end of the ``with`` block the checkpoint is made durable, gets a checksum for each file, and is
        what a restart begins with. If the block raises, it is as if it had never been begun. ``metadata`` is
        kept beside it and shown to people.
        """
        checkpoint = self._core.begin_checkpoint()
        try:
            yield checkpoint.path
        except BaseException:
            checkpoint.abort()
            raise
        checkpoint.commit(metadata)


class GenericContext:
    """A training program's connection to its master, or to its own files. Made by :func:`init`."""

    def __init__(self, core: _det.Core, hparams: Hyperparameters, distributed: DistributedContext) -> None:
        self._core = core
        self._close = weakref.finalize(self, _close_at_exit, core)
        self.distributed = distributed
        self._training = TrainingContext(self, hparams)
        self.checkpoint = CheckpointContext(core)
        """Saves checkpoints."""

    @property
    def training(self) -> TrainingContext:
        """What is known about the trial, and what it has to tell."""
        return self._training

    @property
    def config_data(self) -> dict[str, Any]:
        """The ``data`` section of the configuration."""
        data: dict[str, Any] = self._core.value("data")
        return data

    @property
    def folder(self) -> str:
        """Where reports are written to before they are delivered; alone, where everything is."""
        folder: str = self._core.info["folder"]
        return folder

    @property
    def latest_checkpoint(self) -> SavedCheckpoint | None:
        """Where the trial should go on from; None in its first run."""
        path = self._core.latest_checkpoint()
        return SavedCheckpoint(path) if path else None

    @public
    def should_preempt(self, block: bool = True) -> bool:
        """Whether to save a checkpoint and end now: somebody paused the trial, or needs its slots.

        With ``block=False`` it never waits for the master, and is cheap enough for every batch. On several
        ranks, all of them call it, and get the same answer. A pause takes effect when it is asked for.
        """
        if self.distributed.is_chief:
            return bool(self.distributed.broadcast(self._core.should_preempt(block)))
        return bool(self.distributed.broadcast(None))

    @public
    def close(self) -> None:
        """Delivers what was reported. Without it, that happens at the end of the program."""
        if self._close.detach():
            self._core.close()
        self.distributed.close()

    def __enter__(self) -> GenericContext:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, InvalidHP):
            _report_invalid_hparams(self._core, error)
        self.close()
        if isinstance(error, InvalidHP) and is_task():
            sys.exit(0)

    def __repr__(self) -> str:
        info = self._core.info
        where = "local" if info["is_local"] else f"trial {info['trial_id']}"
        return f"GenericContext({where}, rank {info['rank']} of {info['size']})"


def _close_at_exit(core: _det.Core) -> None:
    # Who has seen an exception, or pressed Ctrl-C, does not want to wait. Nothing is lost: whoever started
    # the program delivers what is left.
    patience = _PATIENCE_AFTER_ERRORS if hasattr(sys, "last_type") else -1
    try:
        core.close(patience)
    except DetError as error:
        logger.warning("%s", error)


def _report_invalid_hparams(core: _det.Core, error: InvalidHP) -> None:
    logger.info("these hyperparameters cannot work: %s", error)
    core.report_invalid_hparams()


def _watch_for_invalid_hparams(context: GenericContext) -> None:
    """Lets an InvalidHP that nobody catches be the end of the trial, not a failure to be repeated."""
    earlier: Callable[..., Any] = sys.excepthook
    reference = weakref.ref(context)

    def hook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        alive = reference()
        if alive is not None and isinstance(error, InvalidHP):
            _report_invalid_hparams(alive._core, error)
        earlier(kind, error, traceback)

    sys.excepthook = hook


def _length_arguments(max_length: Length | None) -> dict[str, int]:
    if max_length is None:
        return {}
    if not isinstance(max_length, Length) or not isinstance(max_length.value, int):
        raise TypeError(f"max_length must be det.Epochs(n), Batches(n) or Records(n): {max_length!r}")
    return {max_length.unit: max_length.value}


@public
def init(
    *,
    hparams: Mapping[str, Any] | None = None,
    config: Config | None = None,
    max_length: Length | None = None,
    seed: int | None = None,
    folder: str | None = None,
    distributed: DistributedContext | None = None,
) -> GenericContext:
    """Finds out where it runs, and connects.

    In a task, everything is the master's to say. The arguments are for programs that run alone.

    Parameters
    ----------
    hparams
        Hyperparameters; they go before those of ``config``.
    config
        An experiment configuration: a file or a dict. Without it, the file that DET_CONFIG names.
    max_length
        How long to train; else what ``config`` says, or one epoch.
    seed
        Where randomness should start; else that of ``config``, or a new one.
    folder
        For metrics and checkpoints; else a new one in det's data folder.
    distributed
        The ranks of this trial, if they were not started by det or torchrun.

    Examples
    --------
    >>> import determined as det
    >>> context = det.generic.init(hparams={"learning_rate": 0.1}, max_length=det.Epochs(3))
    >>> context.training.hparams["learning_rate"], context.training.basic_search().epochs
    (0.1, 3)
    """
    lengths = _length_arguments(max_length)
    if distributed is None:
        distributed = DistributedContext._from_environment()
    if is_task():
        core = _det.Core()
        context = GenericContext(core, Hyperparameters(core.value("hparams"), is_local=False), distributed)
        _watch_for_invalid_hparams(context)
        return context
    settings = read_settings(hparams, config, seed)
    core = _det.Core(
        hparams=settings.hparams,
        config=settings.config,
        folder=folder,
        trial_seed=settings.seed,
        **lengths,
    )
    return GenericContext(core, Hyperparameters(settings.hparams, settings.searched), distributed)
