"""What det raises.

Every failure of det itself is a :class:`DetError`, whose text says what happened, where, and what
to do. Each is also an exception that Python knows, so ``except ValueError`` and
``except ConnectionError`` work as one expects. Exceptions of your own code come out as they were raised.
"""

from __future__ import annotations

__all__ = [
    "Canceled",
    "ConnectionFailed",
    "DamagedData",
    "DetError",
    "InvalidArgument",
    "InvalidHP",
    "LimitExceeded",
    "MissingHyperparameter",
    "NotAllowed",
    "NotFound",
    "OutOfMemory",
    "StorageError",
    "TimedOut",
    "Unsupported",
    "WrongState",
]


class DetError(Exception):
    """Base of everything that det raises."""

    code = "DET_EUNKNOWN"
    """The name of the failure in C, as in messages of other programs of det."""


class InvalidArgument(DetError, ValueError):
    """A value that cannot be used."""

    code = "DET_EINVAL"


class NotFound(DetError, LookupError):
    """Something that is not there."""

    code = "DET_ENOTFOUND"


class MissingHyperparameter(DetError, KeyError):
    """A hyperparameter that nobody has given a value."""

    code = "DET_ENOTFOUND"
    __str__ = Exception.__str__  # KeyError would show the repr of its argument


class WrongState(DetError, RuntimeError):
    """Something that is possible, but not now or not here."""

    code = "DET_ESTATE"


class OutOfMemory(DetError, MemoryError):
    """There was not enough memory."""

    code = "DET_ENOMEM"


class StorageError(DetError, OSError):
    """A file or a disk that fails, or is full."""

    code = "DET_EIO"


class DamagedData(DetError, ValueError):
    """A file that is not what was once written."""

    code = "DET_ECORRUPT"


class LimitExceeded(DetError, ValueError):
    """More than there may be."""

    code = "DET_ELIMIT"


class Unsupported(DetError, NotImplementedError):
    """Something that det does not do."""

    code = "DET_EUNSUPPORTED"


class NotAllowed(DetError, PermissionError):
    """The master does not know who asks, or does not let them."""

    code = "DET_EDENIED"


class ConnectionFailed(DetError, ConnectionError):
    """Nobody answers."""

    code = "DET_EUNREACHABLE"


class TimedOut(DetError, TimeoutError):
    """It took too long."""

    code = "DET_ETIMEOUT"


class Canceled(DetError):
    """Somebody ended it."""

    code = "DET_ECANCELED"


class InvalidHP(DetError, ValueError):
    """Raise it when hyperparameters cannot work: the searcher then chooses others.

    >>> raise InvalidHP("more heads than channels")
    Traceback (most recent call last):
        ...
    determined.errors.InvalidHP: more heads than channels
    """

    code = "DET_EHPARAM"


_BY_CODE: dict[str, type[DetError]] = {
    "DET_EINVAL": InvalidArgument,
    "DET_ESHAPE": InvalidArgument,
    "DET_EDTYPE": InvalidArgument,
    "DET_ENOTFOUND": NotFound,
    "DET_ESTATE": WrongState,
    "DET_ENOMEM": OutOfMemory,
    "DET_EIO": StorageError,
    "DET_ENOSPC": StorageError,
    "DET_ECORRUPT": DamagedData,
    "DET_ELIMIT": LimitExceeded,
    "DET_EUNSUPPORTED": Unsupported,
    "DET_EAUTH": NotAllowed,
    "DET_EDENIED": NotAllowed,
    "DET_EBUSY": ConnectionFailed,
    "DET_EUNREACHABLE": ConnectionFailed,
    "DET_ETIMEOUT": TimedOut,
    "DET_ECANCELED": Canceled,
    "DET_EHPARAM": InvalidHP,
}


def from_code(code: str, message: str) -> DetError:
    """The exception for a failure of C."""
    error = _BY_CODE.get(code, DetError)(message)
    error.code = code
    return error
