"""det trains deep-learning models.

``det.pytorch`` trains a PyTorchTrial, ``det.generic`` lends metrics, checkpoints, hyperparameter search and
pauses to any training program, ``det.core`` does the same by the names of Determined's Core API.
"""

from __future__ import annotations

import os as _os

from determined import _det as _det

_det.set_own_files(
    _os.path.dirname(__file__) + _os.sep,
    _os.path.join(_os.path.dirname(_os.path.dirname(__file__)), "pytorch_accelerated") + _os.sep,
)

from determined import errors, generic
from determined._distributed import DistributedContext
from determined._info import (
    ClusterInfo,
    RendezvousInfo,
    TrialInfo,
    get_cluster_info,
    get_rendezvous_info,
)
from determined._lengths import Batches, Epochs, Length, Records
from determined.errors import DetError, InvalidHP

__version__ = _det.VERSION

__all__ = [
    "Batches",
    "ClusterInfo",
    "DetError",
    "DistributedContext",
    "Epochs",
    "InvalidHP",
    "Length",
    "Records",
    "RendezvousInfo",
    "TrialInfo",
    "__version__",
    "errors",
    "generic",
    "get_cluster_info",
    "get_rendezvous_info",
]
