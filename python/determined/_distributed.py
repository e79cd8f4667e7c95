"""What the processes of one trial do together."""

from __future__ import annotations

import os
import pickle
from typing import Any

from determined import _det
from determined._det import public
from determined.errors import InvalidArgument, WrongState

__all__ = ["DistributedContext"]


def _from_env(name: str, default: int) -> int:
    text = os.environ.get(name) or str(default)
    try:
        return int(text)
    except ValueError:
        raise InvalidArgument(f"{name} must be an integer, found {text!r}") from None


def _key_from_env(size: int, local_size: int) -> str | None:
    key = os.environ.get("DET_RANKS_KEY")
    if key or size != local_size or "MASTER_PORT" not in os.environ:
        return key
    # Started by torchrun or the like: what all ranks of one start, and nobody else, have in common.
    names = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
    return "torch-" + "-".join(os.environ.get(name, "") for name in names)


class DistributedContext:
    """The ranks of a trial: who this one is, and exchanges between all of them.

    All ranks must make the same calls in the same order. One that does something else, fails or
    dies makes the calls of the others fail, with its name: nothing hangs.
    """

    @public
    def __init__(
        self,
        *,
        rank: int,
        size: int,
        local_rank: int,
        local_size: int,
        cross_rank: int,
        cross_size: int,
        chief_ip: str | None = None,
        pub_port: int = 12360,
        pull_port: int = 12376,
        force_tcp: bool = False,
    ) -> None:
        if not 0 <= rank < size or not 0 <= local_rank < local_size:
            raise ValueError(f"rank {rank} of {size}, local rank {local_rank} of {local_size}")
        if not 0 <= cross_rank < cross_size:
            raise ValueError(f"cross rank {cross_rank} of {cross_size}")
        if local_size != size and chief_ip is None:
            raise ValueError("chief_ip is needed for ranks on several machines")
        key = f"det-{chief_ip or '127.0.0.1'}-{pub_port}-{pull_port}"
        self._set(rank, size, local_rank, local_size, cross_rank, cross_size)
        self._join(key)

    def _set(self, *numbers: int) -> None:
        self.rank, self.size, self.local_rank, self.local_size, *cross = numbers
        self.cross_rank, self.cross_size = cross
        self._ranks: _det.Ranks | None = None

    def _join(self, key: str | None) -> None:
        if self.size == 1:
            return
        if self.local_size != self.size:
            raise WrongState(
                f"{self.size} ranks on {self.cross_size} machines: exchanges between machines are "
                "those of torch.distributed, MPI or horovod; det has them within one machine"
            )
        if not key:
            raise WrongState(
                f"there are {self.size} ranks, but no DET_RANKS_KEY by which they find each other: "
                "start them with det-launch, torchrun or determined.launch.torch_distributed"
            )
        self._ranks = _det.Ranks(key, self.rank, self.size)

    @classmethod
    def _from_numbers(cls, key: str | None, *numbers: int) -> DistributedContext:
        self = cls.__new__(cls)
        self._set(*numbers)
        self._join(key)
        return self

    @classmethod
    def _from_environment(cls) -> DistributedContext:
        rank, size = _from_env("RANK", 0), _from_env("WORLD_SIZE", 1)
        local_rank = _from_env("LOCAL_RANK", rank)
        local_size = _from_env("LOCAL_WORLD_SIZE", size)
        cross_rank, cross_size = _from_env("GROUP_RANK", 0), max(1, size // max(1, local_size))
        key = _key_from_env(size, local_size)
        return cls._from_numbers(key, rank, size, local_rank, local_size, cross_rank, cross_size)

    @classmethod
    @public
    def from_torch_distributed(cls, chief_ip: str | None = None) -> DistributedContext:
        """The ranks as torchrun or ``determined.launch.torch_distributed`` has started them."""
        if "WORLD_SIZE" not in os.environ:
            raise WrongState(
                "there is no WORLD_SIZE: start the program with torchrun, det-launch or "
                "determined.launch.torch_distributed"
            )
        return cls._from_environment()

    @classmethod
    @public
    def from_horovod(cls, hvd: Any, chief_ip: str | None = None) -> DistributedContext:
        """The ranks of horovod (after ``hvd.init()``)."""
        numbers = (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size())
        key = os.environ.get("DET_RANKS_KEY") or "horovod-" + "-".join(
            os.environ.get(name, "")
            for name in ("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT")
        )
        return cls._from_numbers(key, *numbers, hvd.cross_rank(), hvd.cross_size())

    # --- who this is

    def get_rank(self) -> int:
        """The number of this process: 0 is the chief, who reports and saves."""
        return self.rank

    def get_local_rank(self) -> int:
        """The number of this process on its machine."""
        return self.local_rank

    def get_size(self) -> int:
        """How many processes train this trial."""
        return self.size

    def get_num_agents(self) -> int:
        """How many machines they are on."""
        return self.cross_size

    @property
    def is_chief(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    @public
    def shard_batch_size(self, global_batch_size: int) -> int:
        """This rank's share of a batch, so that all shares together are not more than it.

        >>> context = DistributedContext._from_environment()
        >>> context.shard_batch_size(64)
        64
        """
        if isinstance(global_batch_size, bool) or not isinstance(global_batch_size, int):
            raise TypeError(f"global_batch_size must be an int, found {global_batch_size!r}")
        if global_batch_size < self.size:
            raise InvalidArgument(
                f"a global batch size of {global_batch_size} leaves nothing for some of the {self.size} ranks"
            )
        return global_batch_size // self.size

    # --- together

    def _gather(self, what: str, stuff: Any) -> list[Any]:
        if self._ranks is None:
            return [stuff]
        parts = self._ranks.all_gather(what, pickle.dumps(stuff))
        return [pickle.loads(part) for part in parts]  # of processes of this trial only

    @public
    def allgather(self, stuff: Any) -> list[Any]:
        """What each rank gives, in the order of ranks, on every rank."""
        return self._gather("allgather", stuff)

    @public
    def gather(self, stuff: Any) -> list[Any] | None:
        """What each rank gives, in the order of ranks, on the chief; None on others."""
        all_stuff = self._gather("gather", stuff)
        return all_stuff if self.is_chief else None

    @public
    def broadcast(self, stuff: Any) -> Any:
        """What the chief gives, on every rank."""
        if self._ranks is None:
            return stuff
        parts = self._ranks.all_gather("broadcast", pickle.dumps(stuff) if self.is_chief else b"")
        return pickle.loads(parts[0])

    # On one machine, local and global are the same.
    allgather_local = allgather
    gather_local = gather
    broadcast_local = broadcast

    @public
    def barrier(self) -> None:
        """Returns when all ranks have come here."""
        if self._ranks is not None:
            self._ranks.barrier("barrier")

    def close(self) -> None:
        """Ends the membership."""
        if self._ranks is not None:
            self._ranks.leave()
            self._ranks = None

    def __enter__(self) -> DistributedContext:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"DistributedContext(rank={self.rank}, size={self.size})"
