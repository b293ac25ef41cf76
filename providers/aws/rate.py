"""A token bucket that adapts, one for each service, shared by all callers. Used by `calls`.

A throttled call halves the rate, calls that pass raise it slowly (additive increase, multiplicative decrease, as in
botocore's adaptive mode and in TCP).
"""

import random
import threading

from providers.ports import Clock

# EC2's buckets for calls without effect refill at 20 a second and hold 100, for those with effect at 5 and 50 or less
# (EC2 API throttling); one bucket for all of ours stays below both.
RATE_PER_S, BURST = 10.0, 50.0
LEAST_RATE_PER_S, GROWTH_PER_S = 0.2, 0.1
# A caller waits at most this long for its turn; then it is told that it is throttled and goes on without.
PATIENCE_S = 2.0


class Rate:
    """The turns of one service."""

    def __init__(self, clock: Clock, *, rate_per_s: float = RATE_PER_S, burst: float = BURST) -> None:
        self._clock, self._most_per_s, self._burst = clock, rate_per_s, burst
        self._lock = threading.Lock()
        self._jitter = random.Random()
        self._tokens, self._filled_at = burst, clock.now()
        self.per_s = rate_per_s

    def take_turn(self) -> bool:
        """Wait for a turn, with jitter; False if it is further away than anyone waits."""
        wait_s = self._missing_s()
        if wait_s > PATIENCE_S:
            return False
        if wait_s > 0:
            self._clock.wait(wait_s * self._jitter.uniform(1.0, 1.2))
        return True

    def slow_down(self) -> None:
        """A call was throttled."""
        with self._lock:
            self.per_s = max(LEAST_RATE_PER_S, self.per_s / 2)
            self._tokens = min(self._tokens, 1.0)

    def speed_up(self) -> None:
        """A call passed."""
        with self._lock:
            self.per_s = min(self._most_per_s, self.per_s + GROWTH_PER_S)

    def _missing_s(self) -> float:
        """Take a turn; how long to wait until it comes. One too far away is not taken."""
        with self._lock:
            now = self._clock.now()
            passed_s = max(0.0, (now - self._filled_at).total_seconds())
            self._tokens = min(self._burst, self._tokens + passed_s * self.per_s)
            self._filled_at = now
            wait_s = max(0.0, (1.0 - self._tokens) / self.per_s)
            if wait_s <= PATIENCE_S:
                self._tokens -= 1.0
            return wait_s
