"""A conflict found in a policy, as the checks give it and `policy_file` turns it into a complaint."""

from dataclasses import dataclass
from enum import StrEnum

from elastic.policy_yaml import Loc


class Severity(StrEnum):
    """Whether the policy can be used all the same."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One conflict: where it shows, which other paths it rests on, what it is and what to do."""

    loc: Loc
    message: str
    hint: str = ""
    severity: Severity = Severity.ERROR
    uses: tuple[Loc, ...] = ()
    of_key: bool = False
    data_ends: bool = False  # about the end of packaged calendar data, which a look at another time may pass over
