"""EC2 as a `Cloud`: puts offerings, fleet, instances and notices together. Made by wiring.

It holds no truth of its own: what is rented stands in EC2 (by tag) and in the ledger (by token). What it remembers
only makes eventually consistent listings steady and repeats harmless.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from providers.aws.account import ENDS_AT_TAG, AwsAccount
from providers.aws.calls import Calls, Clients
from providers.aws.fleet import Fleet
from providers.aws.instances import Instances
from providers.aws.interruptions import Interruptions
from providers.aws.offerings import OfferingBook
from providers.aws.templates import Templates
from providers.errors import InsufficientCapacity, ProviderError, Unreachable
from providers.facts import CapacityType, Instance, InstanceState, LaunchReply, LaunchRequest
from providers.ports import Clock, CloudReading

KEEP_TOKENS = 10_000  # launch tokens remembered: far more than a day's
# EC2's code for a token whose machines have ended: no failure to ask past, or the same launch would rent twice (F002).
MACHINES_ENDED = "IdempotentInstanceTerminated"
# Its code for a token asked before with other words, such as an end that is counted from another instant.
OTHER_WISH = "IdempotentParameterMismatch"
# A lease is renewed when less than half of it is left: a node powers itself off at its end, and work may run for days.
RENEW_SHARE = 0.5
RENEW_EVERY, RENEW_AT_ONCE = timedelta(minutes=10), 500
TEMPLATE_LOOK = timedelta(hours=6)


class AwsCloud:
    """One account and region as the policy names it. `woken` is called when a notice comes in."""

    def __init__(
        self, account: AwsAccount, clients: Clients, clock: Clock, *, woken: Callable[[], None] = lambda: None
    ) -> None:
        self.account, self._clock = account, clock
        self.calls = Calls(clients, clock)
        self.offerings = OfferingBook(account, self.calls, clock)
        self.templates = Templates(account, self.calls)
        self.instances = Instances(account, self.calls, price=self._price, gpus=self.offerings.gpus_of)
        self.fleet = Fleet(account, self.calls, self.templates, give_back=self._give_back)
        self.notices = Interruptions(account, self.calls, clock, is_ours=self.instances.is_known, woken=woken)
        self._asked: dict[str, int] = {}  # sure failures by launch token
        self._renewed_at = self._looked_at = clock.now()

    def read(self) -> CloudReading:
        """See `Cloud.read`. Offerings keep their own beat; one listing; notices from the queue's thread."""
        at = self._clock.now()
        self.offerings.refresh(at)
        instances = self.instances.all(at)
        self.offerings.running(instances)
        self._renew(instances, at)
        self._remove_templates(at)
        return CloudReading(
            instances=instances,
            offerings=self.offerings.offerings(at),
            interruptions=self.notices.notices(at),
        )

    def launch(self, request: LaunchRequest) -> LaunchReply:
        """See `Cloud.launch`. A token asked before is looked up first; EC2's own memory of it is the second net."""
        at = self._clock.now()
        if request.token in self._asked and (found := self._found(request.token)):
            return LaunchReply(instances=found)
        attempt = self._asked.setdefault(request.token, 0)
        while len(self._asked) > KEEP_TOKENS:
            del self._asked[next(iter(self._asked))]
        try:
            reply = self.fleet.launch(request, at, attempt=attempt)
        except ProviderError as trouble:
            if OTHER_WISH in trouble.detail:
                return self._asked_by_another(request.token, trouble)
            if not isinstance(trouble, Unreachable) and MACHINES_ENDED not in trouble.detail:
                self._asked[request.token] += 1
            raise
        if not reply.instances:
            self._asked[request.token] += 1
        self.instances.launched(reply.instances)
        self._remember(reply, at)
        return reply

    def terminate(self, instance_ids: Sequence[str]) -> tuple[str, ...]:
        """See `Cloud.terminate`. Never a machine without our tags."""
        return self.instances.terminate(instance_ids, self._clock.now()) if instance_ids else ()

    def acknowledge(self, interruption_ids: Sequence[str]) -> None:
        """See `Cloud.acknowledge`."""
        self.notices.acknowledge(interruption_ids)

    def start(self) -> None:
        """Listen to the queue of notices."""
        self.notices.start()

    def stop(self) -> None:
        """End what runs beside the ticks."""
        self.notices.stop()

    def trouble(self) -> tuple[str, ...]:
        """What a person should know: prices that are estimates, a queue that cannot be read."""
        return (*self.offerings.trouble, *([self.notices.trouble] if self.notices.trouble else ()))

    def _found(self, token: str) -> tuple[Instance, ...]:
        """The machines of a launch: those that live, or all if none does."""
        found = self.instances.by_token(token)
        self.instances.launched(found)
        gone = (InstanceState.TERMINATING, InstanceState.TERMINATED)
        return tuple(i for i in found if i.state not in gone) or found

    def _asked_by_another(self, token: str, refused: ProviderError) -> LaunchReply:
        """EC2 knows the token: the launch was asked before this process began, or its answer was lost."""
        found = self._found(token)
        if not found:
            raise Unreachable(f"{refused.detail}: asked before, and no listing shows its machines yet") from refused
        return LaunchReply(instances=found)

    def _give_back(self, instances: Sequence[Instance]) -> None:
        """End what a launch has just brought: known as ours, although EC2 may not know it everywhere yet."""
        self.instances.launched(instances)
        self.terminate([i.id for i in instances])

    def _price(self, instance_type: str, zone: str, capacity_type: CapacityType) -> tuple[float, str]:
        usd, source = self.offerings.price_of(instance_type, zone, capacity_type, self._clock.now())
        return usd or 0.0, source

    def _remember(self, reply: LaunchReply, at: datetime) -> None:
        """How long an offering has been obtainable: the pool's age."""
        for failure in reply.failures:
            if failure.error_kind == InsufficientCapacity.kind:
                self.offerings.capacity_error(failure.offering_key, at)
        for key in {i.offering_key for i in reply.instances}:
            self.offerings.capacity_seen(key, at)

    def _renew(self, instances: Sequence[Instance], at: datetime) -> None:
        """Later ends for machines that are kept: one call for all of them, rarely. A block's end is not ours."""
        if at - self._renewed_at < RENEW_EVERY:
            return
        self._renewed_at = at
        limit = timedelta(seconds=self.account.lease_s * RENEW_SHARE)
        short = [
            i.id
            for i in instances
            if i.state is InstanceState.RUNNING
            and i.id not in self.instances.block_ids
            and i.ends_at is not None
            and i.ends_at - at < limit
        ]
        ends_at = (at + timedelta(seconds=self.account.lease_s)).isoformat(timespec="seconds")
        tags = [{"Key": ENDS_AT_TAG, "Value": ends_at}]
        for begin in range(0, len(short), RENEW_AT_ONCE):
            try:
                self.calls.write("ec2", "create_tags", Resources=short[begin : begin + RENEW_AT_ONCE], Tags=tags)
            except ProviderError:
                return  # half a lease is left to try again

    def _remove_templates(self, at: datetime) -> None:
        """Launch templates that nothing has wanted for a week."""
        if at - self._looked_at < TEMPLATE_LOOK:
            return
        self._looked_at = at
        try:
            for template_id, _ in self.templates.unused(at, used_ids=self.instances.template_ids):
                self.templates.remove(template_id)
        except ProviderError:
            return  # they cost nothing; the next look is in some hours
