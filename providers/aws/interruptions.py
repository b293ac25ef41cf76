"""The queue of EventBridge messages: long polls in a thread of its own, notices for the next reading.

A message is deleted only when its effect is recorded (`acknowledge`), or when it can have none: foreign, malformed,
old, or only a reason to look at the listing again. Made by `cloud`; `woken` is called as soon as something came.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from providers.aws.account import AwsAccount
from providers.aws.calls import Calls
from providers.aws.records import Message, message_of
from providers.errors import ProviderError
from providers.facts import Interruption
from providers.ports import Clock

WAIT_S = 20  # of one long poll: SQS's most
MESSAGES_A_CALL = 10  # SQS's most
# A message that is not settled comes again after so long: longer than a tick, shorter than the notice.
VISIBILITY_S = 60
# A notice about an instance no listing has shown is kept so long (listings lag), then it is somebody else's.
FOREIGN_AFTER = timedelta(minutes=3)
# An interruption this old is over, whatever became of it.
OLD_AFTER = timedelta(minutes=10)
PAUSE_S, MAX_PAUSE_S = 2.0, 60.0  # after trouble with the queue, doubling
KEEP_SETTLED = 10_000  # ids of settled messages that may come once more (SQS delivers at least once)


@dataclass(slots=True)
class _Open:
    """A message with notices that are not recorded yet; the handle of its newest delivery."""

    message: Message
    handle: str
    came_at: datetime
    open_ids: set[str] = field(default_factory=set)  # notices not acknowledged yet


class Interruptions:
    """Notices of one queue. `is_ours` tells whether an instance is known; `changed` gets ids whose state changed."""

    def __init__(
        self,
        account: AwsAccount,
        calls: Calls,
        clock: Clock,
        *,
        is_ours: Callable[[str], bool],
        woken: Callable[[], None] = lambda: None,
    ) -> None:
        self._account, self._calls, self._clock, self._is_ours, self.woken = account, calls, clock, is_ours, woken
        self._lock = threading.Lock()
        self._open: dict[str, _Open] = {}
        self._settled: dict[str, None] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._came = 0  # messages that are worth a look, so far
        self.trouble = ""
        self.dropped: dict[str, int] = {}  # messages that said nothing to us, by why

    # The thread

    def start(self) -> None:
        """Listen until `stop`."""
        if self._account.queue_url and self._thread is None:
            self._thread = threading.Thread(target=self._listen, daemon=True, name=f"notices-{self._account.name}")
            self._thread.start()

    def stop(self) -> None:
        """Stop listening; the poll under way ends by itself. What is not settled is told again by the queue."""
        self._stop.set()

    def _listen(self) -> None:
        pause_s = PAUSE_S
        while not self._stop.is_set():
            try:
                self.poll(wait_s=WAIT_S)
                self.trouble, pause_s = "", PAUSE_S
            except ProviderError as trouble:
                self.trouble = f"the queue of interruption notices cannot be read: {trouble.detail}"
                self._stop.wait(pause_s)
                pause_s = min(MAX_PAUSE_S, pause_s * 2)

    def poll(self, *, wait_s: int = 0) -> int:
        """One receive call: take what came in; how many messages that were."""
        answer = self._calls.write(
            "sqs",
            "receive_message",
            QueueUrl=self._account.queue_url,
            MaxNumberOfMessages=MESSAGES_A_CALL,
            WaitTimeSeconds=wait_s,
            VisibilityTimeout=VISIBILITY_S,
        )
        messages = answer.get("Messages") or ()
        before = self._came
        done = [handle for row in messages if (handle := self._take(row))]
        if self._came > before:
            self.woken()
        self._delete(done)
        return len(messages)

    # Notices

    def notices(self, at: datetime) -> tuple[Interruption, ...]:
        """Notices about our instances that are not acknowledged. Those nobody can mean any more are settled."""
        found: list[Interruption] = []
        over: list[str] = []
        with self._lock:
            for key, one in list(self._open.items()):
                mine = [n for n in one.message.notices if n.id in one.open_ids and self._is_ours(n.instance_id)]
                if mine and not self._is_old(one, at):
                    found += mine
                elif mine or at - one.came_at >= FOREIGN_AFTER:
                    self._drop("old" if mine else "not of ours")
                    over.append(self._close(key))
        self._try_delete(over)
        return tuple(found)

    def acknowledge(self, notice_ids: Iterable[str]) -> None:
        """Their effect is recorded. A message goes when all its notices are."""
        over: list[str] = []
        with self._lock:
            for notice_id in notice_ids:
                key = notice_id.rsplit("/", 1)[0]
                one = self._open.get(key)
                if one is None:
                    continue
                one.open_ids.discard(notice_id)
                if not any(n.id in one.open_ids and self._is_ours(n.instance_id) for n in one.message.notices):
                    over.append(self._close(key))
        self._delete(over)

    @staticmethod
    def _is_old(one: _Open, at: datetime) -> bool:
        """Whether the last thing it announces is over for long."""
        ends = [n.ends_at or n.noticed_at for n in one.message.notices]
        return at - max(ends) >= OLD_AFTER

    def _take(self, row: dict[str, Any]) -> str:
        """Look at one message; its handle if it can be deleted at once, '' if it waits for its effect."""
        handle = str(row.get("ReceiptHandle", ""))
        message = message_of(str(row.get("Body", "")), cloud=self._account.name)
        with self._lock:
            if message.trouble:
                self._drop(message.trouble)
                return handle
            if message.id in self._settled:
                return handle
            known = self._open.get(message.id)
            if known is not None:
                known.handle = handle  # delivered again: only the newest handle deletes it
                return ""
            self._came += 1
            if not message.notices:
                return handle  # a change of state: the listing tells the rest
            ids = {n.id for n in message.notices}
            self._open[message.id] = _Open(message, handle, self._clock.now(), ids)
            return ""

    def _close(self, key: str) -> str:
        self._settled[key] = None
        while len(self._settled) > KEEP_SETTLED:
            del self._settled[next(iter(self._settled))]
        return self._open.pop(key).handle

    def _drop(self, why: str) -> None:
        self.dropped[why] = self.dropped.get(why, 0) + 1

    def _try_delete(self, handles: list[str]) -> None:
        try:
            self._delete(handles)
        except ProviderError as trouble:
            self.trouble = f"settled messages could not be deleted, they come again: {trouble.detail}"

    def _delete(self, handles: list[str]) -> None:
        for begin in range(0, len(handles), MESSAGES_A_CALL):
            batch = handles[begin : begin + MESSAGES_A_CALL]
            entries = [{"Id": str(n), "ReceiptHandle": handle} for n, handle in enumerate(batch)]
            self._calls.write("sqs", "delete_message_batch", QueueUrl=self._account.queue_url, Entries=entries)
