"""Our instances as EC2 lists them, made steady: one listing a tick, and nothing is gone because one lacks it (F006).

Ids just launched may be unknown for a while; one that was listed counts as gone only after several whole listings
without it and a look-up by id. Called by `cloud`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from providers.aws.account import CONTROLLER_TAG, OWNER_TAG, TOKEN_TAG, AwsAccount
from providers.aws.calls import Calls
from providers.aws.records import TEMPLATE_TAG, Price, instance_of, tags_of
from providers.errors import InvalidRequest, NotFound, ProviderError, Unreachable
from providers.facts import Instance, InstanceState

PAGE = 1000  # EC2's most
UNKNOWN_LIMIT = timedelta(minutes=2)  # an id just launched may be unknown for so long (EC2 eventual consistency)
MISSED_LISTINGS = 3  # whole listings without a machine before it is looked up by its id
MOST_IDS_A_CALL = 500
TERMINATE_TRIES = 4  # each may name one more id that is gone (F005)
KEEP_ENDED = timedelta(hours=1)
CAPACITY_BLOCK = "capacity-block"  # the lifecycle of its machines; those of other reservations have none


class Instances:
    """The machines of one controller in one account and region."""

    def __init__(self, account: AwsAccount, calls: Calls, *, price: Price, gpus: Callable[[str], int]) -> None:
        self._account, self._calls, self._price, self._gpus = account, calls, price, gpus
        self._known: dict[str, Instance] = {}
        self._missed: dict[str, int] = {}
        self.template_ids: frozenset[str] = frozenset()  # of the machines of the last listing
        self.block_ids: frozenset[str] = frozenset()  # machines in capacity blocks, by the last listing

    def all(self, at: datetime) -> tuple[Instance, ...]:
        """Every machine of ours, those that ended within the hour too. One paged call."""
        seen: dict[str, Instance] = {}
        templates: set[str] = set()
        blocks: set[str] = set()
        for row in self._rows(self._ours()):
            instance = self._read(row)
            if instance is not None:
                seen[instance.id] = instance
                templates.add(tags_of(row).get(TEMPLATE_TAG, ""))
                if row.get("InstanceLifecycle") == CAPACITY_BLOCK:
                    blocks.add(instance.id)
        self.template_ids, self.block_ids = frozenset(templates), frozenset(blocks)
        self._merge(seen, at)
        return tuple(self._known.values())

    def by_token(self, token: str) -> tuple[Instance, ...]:
        """The machines of one launch, ended ones too."""
        rows = self._rows([*self._ours(), {"Name": f"tag:{TOKEN_TAG}", "Values": [token]}])
        return tuple(i for row in rows if (i := self._read(row)) is not None)

    def launched(self, instances: Iterable[Instance]) -> None:
        """Machines a launch told of: they are there although no listing shows them yet."""
        self._known |= {i.id: i for i in instances}

    def is_known(self, instance_id: str) -> bool:
        """Whether it is or was ours as far as this process saw."""
        return instance_id in self._known

    def ended(self, instance_id: str, at: datetime) -> None:
        """Somebody who knows said that it is gone."""
        known = self._known.get(instance_id)
        if known is not None and known.state is not InstanceState.TERMINATED:
            self._known[instance_id] = replace(known, state=InstanceState.TERMINATED, terminated_at=at)

    def terminate(self, instance_ids: Sequence[str], at: datetime) -> tuple[str, ...]:
        """End those of the ids that are ours; returns the ids that are ending or gone. Ids EC2 does not know are named
        one a call (F005): they are left out and the call is repeated, a few times at most."""
        unknown = [i for i in instance_ids if not self.is_known(i)]
        found = {i: self._look_up(i) for i in unknown}
        self.launched(f[0] for f in found.values() if f is not None and f[1])
        settled = {i for i, f in found.items() if f is None}  # one that is there and not ours is left alone
        known = [i for i in dict.fromkeys(instance_ids) if self.is_known(i)]
        settled |= {i for i in known if self._known[i].state is InstanceState.TERMINATED}
        wanted = [i for i in known if i not in settled]
        refused: ProviderError | None = None
        for begin in range(0, len(wanted), MOST_IDS_A_CALL):
            try:
                settled |= self._terminate(wanted[begin : begin + MOST_IDS_A_CALL], at)
            except ProviderError as trouble:
                refused = trouble
        if refused is not None and not settled:
            raise refused
        return tuple(i for i in instance_ids if i in settled)

    def _terminate(self, ids: list[str], at: datetime) -> set[str]:
        gone: set[str] = set()
        for _ in range(TERMINATE_TRIES):
            left = [i for i in ids if i not in gone]
            if not left:
                break
            try:
                answer = self._calls.write("ec2", "terminate_instances", InstanceIds=left)
            except NotFound as trouble:
                named = {i for i in left if i in trouble.detail}
                if not named:
                    raise
                gone |= self._surely_gone(named, at)
                if named - gone:
                    raise Unreachable(f"{trouble.detail}: launched too lately to be known everywhere") from trouble
                continue
            ending = {str(row["InstanceId"]) for row in answer.get("TerminatingInstances") or ()}
            for instance_id in ending & set(self._known):
                self._ending(instance_id)
            return gone | ending
        return gone

    def _surely_gone(self, ids: set[str], at: datetime) -> set[str]:
        """Those of the ids unknown to EC2 that are not just too young to be known."""
        old = {i for i in ids if at - self._known[i].requested_at >= UNKNOWN_LIMIT}
        for instance_id in old:
            self.ended(instance_id, at)
        return old

    def _ending(self, instance_id: str) -> None:
        known = self._known[instance_id]
        if known.state is not InstanceState.TERMINATED:
            self._known[instance_id] = replace(known, state=InstanceState.TERMINATING)

    # Listing

    def _merge(self, seen: dict[str, Instance], at: datetime) -> None:
        for instance_id, known in list(self._known.items()):
            fresh = seen.get(instance_id)
            if fresh is None:
                self._miss(known, at)
            elif known.state is InstanceState.TERMINATED and fresh.state is not InstanceState.TERMINATED:
                seen[instance_id] = known  # a listing lags behind what we know
        self._missed = {i: n for i, n in self._missed.items() if i not in seen and i in self._known}
        self._known |= seen
        self._known = {
            i: known
            for i, known in self._known.items()
            if known.state is not InstanceState.TERMINATED
            or i in seen
            or (known.terminated_at is not None and at - known.terminated_at < KEEP_ENDED)
        }

    def _miss(self, known: Instance, at: datetime) -> None:
        """One more whole listing without it. When it has been missed often enough and is old enough to be listed, its
        id is asked for; only if EC2 does not know it, or says so, it is gone."""
        self._missed[known.id] = self._missed.get(known.id, 0) + 1
        young = at - known.requested_at < UNKNOWN_LIMIT
        if known.state is InstanceState.TERMINATED or young or self._missed[known.id] < MISSED_LISTINGS:
            return
        found = self._look_up(known.id)
        if found is None:
            self.ended(known.id, at)
        else:
            self._known[known.id] = found[0]
            self._missed[known.id] = 0

    def _look_up(self, instance_id: str) -> tuple[Instance, bool] | None:
        """One instance by its id and whether it carries our tags; None if EC2 does not know it."""
        try:
            answer = self._calls.read("ec2", "describe_instances", InstanceIds=[instance_id])
        except (NotFound, InvalidRequest):
            return None
        rows = (row for r in answer.get("Reservations") or () for row in r.get("Instances") or ())
        for row in rows:
            instance, tags = self._read(row), tags_of(row)
            if instance is not None:
                ours = tags.get(OWNER_TAG), tags.get(CONTROLLER_TAG)
                return instance, ours == (self._account.owner, self._account.controller)
        return None

    def _rows(self, filters: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
        pages = self._calls.pages("ec2", "describe_instances", key="Reservations", Filters=filters, MaxResults=PAGE)
        return (row for reservation in pages for row in reservation.get("Instances") or ())

    def _read(self, row: dict[str, Any]) -> Instance | None:
        gpus = self._gpus(str(row.get("InstanceType", "")))
        account = self._account
        return instance_of(row, cloud=account.name, region=account.region, gpus=gpus, price=self._price)

    def _ours(self) -> list[dict[str, Any]]:
        return [
            {"Name": f"tag:{OWNER_TAG}", "Values": [self._account.owner]},
            {"Name": f"tag:{CONTROLLER_TAG}", "Values": [self._account.controller]},
        ]
