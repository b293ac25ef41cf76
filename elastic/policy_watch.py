"""Follows a policy file for the running service: each change applied once, the last good policy kept.

No thread and no file-system events: the controller calls `look(now)` each tick and the content decides, so swapped
ConfigMap links, saves by rename, saves in place and directories that come and go are all the same (F022).

A file replaced as a whole (another inode) is applied at the look that sees it. A file written in place is applied when
two looks in a row see the same bytes, so that half a save is never taken for a policy: one tick later.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from elastic.calendar_sources import resolve_calendars
from elastic.planning.policy import Policy
from elastic.policy_file import Complaint, PolicyReading, content_hash, parse_policy, read_bytes, unreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyLook:
    """What one look gave. `policy` is the one to act by: the newest good one, None if there never was one.

    `changed`: its wishes are others than at the last look. `complaints` are of the file as it is now (warnings
    included); `stale` says that the file asks for something that could not be applied, `wanted_hash` what it holds.
    """

    policy: Policy | None
    changed: bool
    stale: bool
    complaints: tuple[Complaint, ...]
    wanted_hash: str
    applied_at: datetime | None

    @property
    def active_hash(self) -> str:
        """The content hash of the policy in use."""
        return self.policy.content_hash if self.policy else ""


class PolicyWatcher:
    """Looks at one file again and again. Calendars are resolved anew once a day, so they never run out."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._good: PolicyReading | None = None
        self._good_raw = b""
        self._complaints: tuple[Complaint, ...] = ()
        self._judged: str | None = None  # content hash of the last content judged, good or bad
        self._inode: tuple[int, int] | None = None
        self._unsettled: str | None = None
        self._resolved_on: datetime | None = None
        self._applied_at: datetime | None = None

    def look(self, now: datetime) -> PolicyLook:
        """Read the file as it is at `now` (aware) and apply what is new and good. Never raises for the file."""
        try:
            raw = read_bytes(self._path)
            inode = self._identity()
        except OSError as error:
            # Remember nothing: the file that comes back is looked at afresh.
            self._judged, self._unsettled, self._inode = None, None, None
            self._complaints = unreadable(self._path, error).complaints
            return self._answer(now, changed=False, wanted_hash="")
        name = content_hash(raw)
        if name == self._judged:
            self._unsettled = None
            return self._answer(now, changed=False, wanted_hash=name)
        if self._is_written_in_place(inode) and name != self._unsettled:
            self._unsettled = name
            return self._answer(now, changed=False, wanted_hash=name)
        self._inode, self._unsettled, self._judged = inode, None, name
        return self._answer(now, changed=self._judge(raw, name, now), wanted_hash=name)

    def _identity(self) -> tuple[int, int]:
        stat = self._path.stat()
        return stat.st_dev, stat.st_ino

    def _is_written_in_place(self, inode: tuple[int, int]) -> bool:
        return self._inode is not None and inode == self._inode

    def _judge(self, raw: bytes, name: str, now: datetime) -> bool:
        reading = parse_policy(raw, file=str(self._path), at=now)
        self._complaints = reading.complaints
        if reading.policy is None:
            return False
        changed = self._good is None or self._good.content_hash != name
        self._good, self._good_raw, self._resolved_on = reading, raw, now
        if changed:
            self._applied_at = now
        return changed

    def _answer(self, now: datetime, *, changed: bool, wanted_hash: str) -> PolicyLook:
        self._resolve_daily(now)
        good = self._good.policy if self._good else None
        return PolicyLook(
            policy=good,
            changed=changed,
            stale=good is None or good.content_hash != wanted_hash,
            complaints=self._complaints,
            wanted_hash=wanted_hash,
            applied_at=self._applied_at,
        )

    def _resolve_daily(self, now: datetime) -> None:
        """Move the calendars' five weeks along with the day, and complain anew when their data runs out."""
        if self._good is None or self._resolved_on is None or now.date() == self._resolved_on.date():
            return
        self._resolved_on = now
        assert self._good.policy is not None
        assert self._good.document is not None
        if self._judged == self._good.content_hash:
            self._complaints = parse_policy(self._good_raw, file=str(self._path), at=now).complaints
        # Past the end of packaged data the days are estimated: a policy in use is never left without its calendars.
        calendars = resolve_calendars(self._good.document.calendars, at=now)
        self._good = replace(self._good, policy=replace(self._good.policy, calendars=calendars))
