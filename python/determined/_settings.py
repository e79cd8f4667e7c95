"""Where a program that no master has started gets its hyperparameters and its configuration."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any, NamedTuple, Union

from determined import _det
from determined.errors import NotFound

__all__ = ["Config", "Settings", "is_task", "read_settings"]

Config = Union[Mapping[str, Any], str, "os.PathLike[str]"]

logger = logging.getLogger("determined")


class Settings(NamedTuple):
    """What was configured, complete."""

    hparams: dict[str, Any]
    searched: list[str]  # names of hyperparameters without a value
    config: dict[str, Any]
    seed: int


def is_task() -> bool:
    """Whether a master has started this program."""
    master = os.environ.get("DET_MASTER") or os.environ.get("DETERMINED_MASTER")
    return bool(master and os.environ.get("DET_ALLOCATION_ID"))


def _merge(above: Mapping[str, Any], below: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for name, value in above.items():
        old = below.get(name)
        both = isinstance(value, Mapping) and isinstance(old, Mapping)
        merged[name] = _merge(value, old) if both else value  # type: ignore[arg-type]
    return merged


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _without_none(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
        if value is not None
    }


def _text_of(config: Config) -> tuple[str, str]:
    if isinstance(config, Mapping):
        return _det.to_json(config, "config"), "config"
    path = os.fspath(config)
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(), path
    except FileNotFoundError:
        raise NotFound(f"there is no configuration {path!r}") from None


def new_seed() -> int:
    """A seed that nobody has used."""
    return int.from_bytes(os.urandom(4), "little") & 0x7FFFFFFF


def read_settings(
    hparams: Mapping[str, Any] | None = None,
    config: Config | None = None,
    seed: int | None = None,
) -> Settings:
    """Hyperparameters and configuration as given, or as the file in DET_CONFIG says."""
    if config is None:
        config = os.environ.get("DET_CONFIG") or None
    drawn = new_seed() if seed is None else seed
    if config is None:
        return Settings(dict(hparams or {}), [], {}, drawn)
    text, source = _text_of(config)
    complete, constants, searched, warnings = _det.read_config(text, source, drawn)
    for warning in warnings:
        logger.warning("%s", warning)
    merged = _merge(hparams or {}, constants)
    if seed is None:
        drawn = complete.get("reproducibility", {}).get("experiment_seed", drawn)
    return Settings(_without_none(merged), searched, complete, drawn)
