"""Where a program runs: :func:`get_cluster_info`."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from determined._det import public
from determined._hparams import Hyperparameters
from determined._settings import is_task
from determined.errors import InvalidArgument

__all__ = ["ClusterInfo", "RendezvousInfo", "TrialInfo", "get_cluster_info", "get_rendezvous_info"]


def _json(name: str, default: Any) -> Any:
    text = os.environ.get(name)
    if not text:
        return default
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidArgument(f"{name} is not JSON: {error}") from None


def _number(name: str) -> int:
    text = os.environ.get(name) or "0"
    try:
        return int(text)
    except ValueError:
        raise InvalidArgument(f"{name} must be an integer, found {text!r}") from None


class RendezvousInfo(NamedTuple):
    """The machines that a task has, for programs that start processes on them.

    A launch layer of one's own needs no more than this and the command that follows its own
    arguments:

    >>> info = get_rendezvous_info()
    >>> info.container_rank, info.container_addrs
    (0, ['127.0.0.1'])
    """

    container_addrs: list[str]
    """Addresses of the machines; the first is the chief's."""
    container_rank: int
    """Which of them this is."""
    container_slot_counts: list[int]
    """How many slots the task has on each."""

    @property
    def size(self) -> int:
        """How many slots the task has on all machines."""
        return sum(self.container_slot_counts)

    @property
    def slots(self) -> int:
        """How many slots the task has on this machine."""
        return self.container_slot_counts[self.container_rank]

    @property
    def chief_address(self) -> str:
        """The address by which all machines reach the first."""
        return self.container_addrs[0]


@public
def get_rendezvous_info() -> RendezvousInfo:
    """The machines of this task; alone, this machine with one slot."""
    info = _json("DET_RENDEZVOUS_INFO", None)
    if info is None:
        return RendezvousInfo(["127.0.0.1"], 0, [max(1, len(_json("DET_SLOT_IDS", [])))])
    try:
        return RendezvousInfo(
            [str(address) for address in info["container_addrs"]],
            int(info["container_rank"]),
            [int(slots) for slots in info["container_slot_counts"]],
        )
    except (KeyError, TypeError, ValueError):
        raise InvalidArgument(
            'DET_RENDEZVOUS_INFO must be {"container_addrs": [...], "container_rank": N, '
            f'"container_slot_counts": [...]}}, found {info!r}'
        ) from None


class TrialInfo:
    """The trial that this program trains."""

    def __init__(self) -> None:
        self.trial_id = _number("DET_TRIAL_ID")
        self.experiment_id = _number("DET_EXPERIMENT_ID")
        self.trial_seed = _number("DET_TRIAL_SEED")
        self.trial_run_id = _number("DET_TRIAL_RUN_ID")
        self.steps_completed = _number("DET_STEPS_COMPLETED")
        self.hparams: dict[str, Any] = Hyperparameters(_json("DET_HPARAMS", {}), is_local=False)
        self._config: dict[str, Any] = _json("DET_EXPERIMENT_CONFIG", {})

    def __repr__(self) -> str:
        return f"TrialInfo(trial_id={self.trial_id}, experiment_id={self.experiment_id})"


class ClusterInfo:
    """The master, the task and the slots of this program."""

    def __init__(self) -> None:
        env = os.environ.get
        self.master_url = env("DET_MASTER") or env("DETERMINED_MASTER") or ""
        self.cluster_id = env("DET_CLUSTER_ID") or ""
        self.agent_id = env("DET_AGENT_ID") or ""
        self.task_id = env("DET_TASK_ID") or ""
        self.allocation_id = env("DET_ALLOCATION_ID") or ""
        self.session_token = env("DET_SESSION_TOKEN") or ""
        self.task_type = env("DET_TASK_TYPE") or ""
        self.master_cert_file = env("DET_MASTER_CERT_FILE") or None
        self.master_cert_name = env("DET_MASTER_CERT_NAME") or None
        self.latest_checkpoint: str | None = env("DET_LATEST_CHECKPOINT") or None
        self.slot_ids: list[int] = _json("DET_SLOT_IDS", [])
        self.gpu_uuids: list[str] = [u for u in (env("CUDA_VISIBLE_DEVICES") or "").split(",") if u]
        self.container_addrs, self.container_rank, self.container_slot_counts = get_rendezvous_info()

    @property
    def trial(self) -> TrialInfo:
        """The trial; only in a task of type TRIAL."""
        if self.task_type != "TRIAL":
            raise RuntimeError(f"this task is of type {self.task_type!r}: it has no trial")
        return TrialInfo()

    @property
    def user_data(self) -> dict[str, Any]:
        """The ``data`` section of the configuration."""
        data: dict[str, Any] = _json("DET_EXPERIMENT_CONFIG", {}).get("data") or {}
        return data

    def __repr__(self) -> str:
        return f"ClusterInfo(master_url={self.master_url!r}, task_id={self.task_id!r})"


@public
def get_cluster_info() -> ClusterInfo | None:
    """Where this program runs, or None if no master has started it."""
    return ClusterInfo() if is_task() else None
