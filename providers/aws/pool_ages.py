"""Since when each offering has been obtainable: a pool that has just come back is the worst place for a gang.

Fed by launches through `offerings`. What was never found dry has no age: it is not known to be young.
"""

from datetime import datetime


class PoolAges:
    """By offering key: the last time it was dry, or the first launch that brought machines after that."""

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}
        self._dry: set[str] = set()

    def dry(self, key: str, at: datetime) -> None:
        """A launch found none. Until one is seen again it has been up since now at the earliest."""
        self._since[key] = at
        self._dry.add(key)

    def up(self, key: str, at: datetime) -> bool:
        """A launch brought some. True if that tells anything: it is the first since it was dry."""
        if key not in self._dry:
            return False
        self._dry.discard(key)
        self._since[key] = at
        return True

    def since(self, key: str) -> datetime | None:
        """Up since then as far as we know, None if it was never found dry."""
        return self._since.get(key)
