"""What a test, a story or a demo may do to a simulated cloud. `script` reads and plays them at their times."""

from dataclasses import dataclass, field

from providers.errors import ProviderError


@dataclass(slots=True)
class Faults:
    """Trouble of one cloud. The lists are raised by the next calls of that name, one a call; the rest holds until it is
    set back."""

    launch: list[ProviderError] = field(default_factory=list)
    read: list[ProviderError] = field(default_factory=list)
    terminate: list[ProviderError] = field(default_factory=list)
    lost_replies: int = 0  # so many launches take effect and their answer is lost
    boot_failures: int = 0  # so many machines are rented and never join
    hidden_ids: set[str] = field(default_factory=set)  # left out of listings (eventual consistency)
    hide_new_s: float = 0.0  # a new machine is not listed for so long
    call_s: float = 0.0  # a launch or termination takes so long; the world goes on meanwhile
    read_error: ProviderError | None = None  # raised by every reading
    read_gap: str = ""  # what a reading lacks: it says that it is not whole
    price_factor: float = 1.0  # a feed that lies
