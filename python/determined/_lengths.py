"""How long to train, and how often to do something."""

from __future__ import annotations

from collections.abc import Collection

from determined._det import public

__all__ = ["Batches", "Epochs", "Length", "Records"]


class Length:
    """A number of epochs, batches or records.

    As a period it is due at each multiple of the number, or at exactly the counts of a collection.

    >>> Epochs(10)
    Epochs(10)
    >>> Batches([100, 1000]) == Batches((100, 1000))
    True
    """

    unit: str = ""

    @public
    def __init__(self, value: int | Collection[int]) -> None:
        if not self.unit:
            raise TypeError("use Epochs, Batches or Records")
        counts = [value] if isinstance(value, int) else value
        if isinstance(value, (bool, str, bytes)) or not isinstance(counts, Collection):
            raise TypeError(f"{self} must be an int, or a collection of them, found {value!r}")
        for count in counts:
            if isinstance(count, bool) or not isinstance(count, int):
                raise TypeError(f"{type(self).__name__} takes ints, found {count!r}")
            if count < 0:
                raise ValueError(f"{type(self).__name__} must be at least 0, found {count}")
        self.value: int | Collection[int] = value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({getattr(self, 'value', '')!r})"

    def _key(self) -> object:
        value = self.value if isinstance(self.value, int) else tuple(sorted(self.value))
        return (self.unit, value)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Length) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())


class Epochs(Length):
    """Passes through the training data."""

    unit = "epochs"


class Batches(Length):
    """Batches of training data, as each rank sees them."""

    unit = "batches"


class Records(Length):
    """Samples of training data, of all ranks together."""

    unit = "records"
