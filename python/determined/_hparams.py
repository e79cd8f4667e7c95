"""Hyperparameters: a dict that says what to do when one is missing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from determined._det import public
from determined.errors import MissingHyperparameter

__all__ = ["Hyperparameters"]

_WAYS = (
    "give it with init(hparams={{{key!r}: ...}}), with DET_CONFIG=FILE, a configuration that has it "
    "under 'hyperparameters:', or with 'det experiment create FILE . --local'"
)


class Hyperparameters(dict[str, Any]):
    """The hyperparameters of this trial.

    >>> hparams = Hyperparameters({"learning_rate": 0.1})
    >>> hparams["learning_rate"]
    0.1
    >>> hparams.get("dropout", 0.5)
    0.5
    """

    def __init__(self, values: dict[str, Any], searched: Iterable[str] = (), is_local: bool = True) -> None:
        super().__init__(values)
        self._searched = frozenset(searched)
        self._is_local = is_local

    @public
    def __missing__(self, key: str) -> NoReturn:
        if key in self._searched:
            problem = f"hyperparameter {key!r} is to be searched for, and has no value in a local run"
        else:
            problem = f"hyperparameter {key!r} is not defined"
            import difflib  # only needed for this message

            near = difflib.get_close_matches(str(key), list(self), n=1)
            if near:
                problem += f" (did you mean {near[0]!r}?)"
        if self._is_local:
            advice = _WAYS.format(key=key)
        else:
            advice = "define it under 'hyperparameters:' of the experiment configuration"
        raise MissingHyperparameter(f"{problem}; {advice}")
