"""The simulated cloud: offerings with prices, zones that run dry together, machines that boot, interruptions.

Shapes of availability are those measured on public spot traces: zones of a region tend to run dry together, a dry zone
is back within 30 minutes half of the time, losses come several at once; two minutes' notice before a machine goes.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import log
from random import Random

from providers.errors import InsufficientCapacity, InvalidRequest
from providers.facts import (
    CapacityType,
    Instance,
    InstanceState,
    Interruption,
    InterruptionKind,
    LaunchReply,
    LaunchRequest,
    Node,
    NodeState,
    Offering,
    OfferingFailure,
)
from providers.sim.faults import Faults
from providers.sim.market import Market, MarketState
from providers.sim.record import NAN
from providers.sim.world import World, instant

NOTICE_S = 120.0  # EC2's spot interruption notice
CORRELATION = 0.43  # of zones of a region running dry together (capacity-anchors)
# Spread of the log of a dry spell (capacity-anchors: 23 % within 10 min, 50 % 30 min, 65 % 1 h, 78 % 2 h, 88 % 4 h).
DOWN_SPREAD = 1.6


class SimulatedCloud:
    """Machines of one cloud account in a world."""

    def __init__(self, world: World, markets: Sequence[Market], *, name: str = "sim", seed: int = 0) -> None:
        self.world, self.name, self.faults = world, name, Faults()
        self._random = Random(f"{seed}/{name}")
        self._markets = {m.key: MarketState(m, up_since_s=world.now_s) for m in markets}
        self._instances: dict[str, Instance] = {}
        self._by_token: dict[str, tuple[str, ...]] = {}
        self._notices: dict[str, Interruption] = {}
        self._number = 0
        self._offerings: tuple[Offering, ...] = ()
        self._priced_s = -1.0
        self._instance_tuple: tuple[Instance, ...] | None = ()
        for state in self._markets.values():
            if state.market.mean_up_s is not None:
                self._turn_later(state, up=False, delay_s=self._up_s(state.market))

    # Reading

    def instances(self) -> tuple[Instance, ...]:
        """Machines that are not terminated, less those a listing does not show yet."""
        if self._instance_tuple is None:
            self._instance_tuple = tuple(self._instances.values())
        if self.faults.hidden_ids:
            return tuple(i for i in self._instance_tuple if i.id not in self.faults.hidden_ids)
        return self._instance_tuple

    def interruptions(self) -> tuple[Interruption, ...]:
        """Notices not acknowledged yet."""
        return tuple(self._notices.values())

    def offerings(self) -> tuple[Offering, ...]:
        """What can be rented, with prices of the last full hour."""
        hour_s = self.world.now_s // 3600 * 3600
        if hour_s != self._priced_s:
            self._priced_s = hour_s
            self._offerings = tuple(self._offering(s) for s in self._markets.values())
        return self._offerings

    def _offering(self, state: MarketState) -> Offering:
        market = state.market
        return Offering(
            cloud=self.name,
            instance_type=market.instance_type,
            zone=market.zone,
            capacity_type=market.capacity_type,
            gpus=market.gpus,
            gpu_model=market.gpu_model,
            cpus=market.cpus,
            memory_gib=market.memory_gib,
            price_usd_per_hour=market.price_usd_per_hour * self.faults.price_factor,
            price_source="simulated",
            priced_at=instant(self._priced_s),
            zone_up_since=instant(state.up_since_s) if market.mean_up_s is not None or market.follows_series else None,
        )

    def look_again(self) -> None:
        """Prices are made anew at the next listing: the feed has changed within its hour."""
        self._priced_s = -1.0

    # Renting

    def launch(self, request: LaunchRequest) -> LaunchReply:
        """Take nodes from the ranked offerings in order; a gang from one offering's zone or not at all."""
        if request.token in self._by_token:
            known = (self._instances.get(i) for i in self._by_token[request.token])
            return LaunchReply(instances=tuple(i for i in known if i is not None))
        if not request.offerings or request.nodes < 1:
            raise InvalidRequest("a launch needs offerings and at least one node")
        failures: list[OfferingFailure] = []
        taken: list[MarketState] = []
        for offering in request.offerings:
            state = self._markets.get(offering.key)
            room = self._room(state)
            wanted = request.nodes - len(taken)
            if state is None or room < (wanted if request.gang else 1):
                detail = f"{offering.key} has no capacity for {wanted} node(s) now"
                failures.append(
                    OfferingFailure(offering_key=offering.key, error_kind=InsufficientCapacity.kind, detail=detail)
                )
                continue
            taken += [state] * min(room, wanted)
            if len(taken) == request.nodes:
                break
        instances = tuple(self._boot(request, state) for state in taken)
        if instances:
            self._by_token[request.token] = tuple(i.id for i in instances)
        return LaunchReply(instances=instances, failures=tuple(failures))

    def _room(self, state: MarketState | None) -> int:
        if state is None or not state.up:
            return 0
        limit = state.market.limit_nodes
        return 10**9 if limit is None else limit - state.alive

    def _boot(self, request: LaunchRequest, state: MarketState) -> Instance:
        self._number += 1
        market = state.market
        instance = Instance(
            id=f"i-{self.name}-{self._number:06d}",
            cloud=self.name,
            pool=request.pool,
            token=request.token,
            state=InstanceState.PENDING,
            instance_type=market.instance_type,
            zone=market.zone,
            capacity_type=market.capacity_type,
            gpus=market.gpus,
            price_usd_per_hour=market.price_usd_per_hour,
            requested_at=instant(self.world.now_s),
            team=request.team,
        )
        state.alive += 1
        self._set(instance)
        boot_s = market.boot_s + (self._random.random() * market.boot_spread_s if market.boot_spread_s else 0.0)
        if self._comes_up(market):
            self.world.at(self.world.now_s + boot_s, lambda: self._join(instance.id, market, request.cluster))
        if market.mean_life_s is not None and market.capacity_type is CapacityType.SPOT:
            life_s = boot_s + self._random.expovariate(1 / market.mean_life_s)
            self.world.at(self.world.now_s + life_s, lambda: self.interrupt(instance.id))
        if self.faults.hide_new_s:
            hidden = self.faults.hidden_ids
            hidden.add(instance.id)
            self.world.at(self.world.now_s + self.faults.hide_new_s, lambda: hidden.discard(instance.id))
        return instance

    def _comes_up(self, market: Market) -> bool:
        if self.faults.boot_failures:
            self.faults.boot_failures -= 1
            return False
        return not market.boot_failure_share or self._random.random() >= market.boot_failure_share

    def _join(self, instance_id: str, market: Market, cluster: str) -> None:
        """The machine has booted and registers with the batch scheduler."""
        instance = self._instances.get(instance_id)
        if instance is None or instance.state is not InstanceState.PENDING:
            return
        self._set(
            replace(instance, state=InstanceState.RUNNING, node_id=instance_id, running_since=instant(self.world.now_s))
        )
        self.world.add_node(
            Node(
                id=instance_id,
                cluster=cluster,
                pool=instance.pool,
                capacity_type=instance.capacity_type,
                state=NodeState.READY,
                gpus=market.gpus,
                free_gpus=market.gpus,
                cpus=market.cpus,
                free_cpus=market.cpus,
                memory_gib=market.memory_gib,
                free_memory_gib=market.memory_gib,
                gpu_model=market.gpu_model,
                zone=market.zone,
                instance_id=instance_id,
            )
        )

    def terminate(self, instance_ids: Sequence[str]) -> tuple[str, ...]:
        """Give machines back; unknown ones count as gone."""
        for instance_id in instance_ids:
            self._end(instance_id)
        return tuple(instance_ids)

    def _end(self, instance_id: str) -> None:
        instance = self._instances.pop(instance_id, None)
        self._instance_tuple = None
        self._notices = {k: n for k, n in self._notices.items() if n.instance_id != instance_id}
        if instance is None:
            return
        state = self._markets[f"{instance.instance_type}/{instance.zone}/{instance.capacity_type.value}"]
        state.alive -= 1
        ready_s = self.world.now_s
        if instance.node_id in self.world.nodes:
            ready_at = self.world.nodes[instance.node_id].ready_at
            ready_s = ready_at.timestamp() if ready_at else ready_s
            self.world.remove_node(instance.node_id)
        self.world.record.node(self._row(instance, ready_s, self.world.now_s, state.market))

    def _row(
        self, instance: Instance, ready_s: float, released_s: float, market: Market
    ) -> tuple[str, str, int, float, float, float, str, float, str]:
        requested_s = instance.requested_at.timestamp()
        ready_s = max(ready_s, requested_s + market.boot_s)
        kind = instance.capacity_type.value
        price = instance.price_usd_per_hour
        return (instance.id, "cloud", instance.gpus, requested_s, ready_s, released_s, kind, price, instance.zone)

    def close_record(self) -> None:
        """Write rows for the machines still held, at the end of a replay."""
        for instance in self._instances.values():
            state = self._markets[f"{instance.instance_type}/{instance.zone}/{instance.capacity_type.value}"]
            node = self.world.nodes.get(instance.node_id or "")
            ready_s = node.ready_at.timestamp() if node and node.ready_at else 0.0
            self.world.record.node(self._row(instance, ready_s, NAN, state.market))

    # What the cloud does by itself

    def interrupt(self, instance_id: str) -> None:
        """The two-minute notice, and the end after it."""
        instance = self._instances.get(instance_id)
        if instance is None or any(n.instance_id == instance_id for n in self._notices.values()):
            return
        notice = Interruption(
            id=f"n-{instance_id}",
            cloud=self.name,
            instance_id=instance_id,
            kind=InterruptionKind.SPOT_INTERRUPTION,
            noticed_at=instant(self.world.now_s),
            ends_at=instant(self.world.now_s + NOTICE_S),
        )
        self._notices[notice.id] = notice
        self.world.at(self.world.now_s + NOTICE_S, lambda: self._end(instance_id))

    def acknowledge(self, interruption_ids: Sequence[str]) -> None:
        """Forget notices that were recorded."""
        for notice_id in interruption_ids:
            self._notices.pop(notice_id, None)

    def run_dry(self, *, zone: str, instance_type: str, capacity_type: str, for_s: float) -> int:
        """Scripted: no new machines of the matching markets ('' matches all) for so long; returns how many they are."""
        found = [
            s
            for s in self._markets.values()
            if zone in ("", s.market.zone)
            and instance_type in ("", s.market.instance_type)
            and capacity_type in ("", s.market.capacity_type.value)
        ]
        for state in found:
            self._change(state, up=False)
            self.world.at(self.world.now_s + for_s, lambda s=state, n=state.turns: self._turn(s, n, up=True))  # type: ignore[misc]
        return len(found)

    def _turn_later(self, state: MarketState, *, up: bool, delay_s: float) -> None:
        number = state.turns
        self.world.at(self.world.now_s + delay_s, lambda: self._turn(state, number, up=up))

    def _up_s(self, market: Market) -> float:
        return self._random.expovariate(1 / (market.mean_up_s or 1.0))

    def _turn(self, state: MarketState, number: int, *, up: bool) -> None:
        """A market runs dry or comes back; with one, some of the region's others run dry, for about as long."""
        if state.turns != number:
            return
        self._change(state, up=up)
        if up:
            if state.market.mean_up_s is not None:
                self._turn_later(state, up=False, delay_s=self._up_s(state.market))
            return
        dry = [state]
        for other in self._markets.values():
            if other.up and other.market.mean_up_s is not None and self._random.random() < CORRELATION:
                self._change(other, up=False)
                dry.append(other)
        down_s = self._random.lognormvariate(log(state.market.median_down_s), DOWN_SPREAD)
        for one in dry:
            self._turn_later(one, up=True, delay_s=down_s * self._random.uniform(0.8, 1.2))
            self._take_some(one.market)

    def _take_some(self, market: Market) -> tuple[str, ...]:
        """What runs dry takes machines back as well, several at once."""
        if not market.dry_loss_share or market.capacity_type is not CapacityType.SPOT:
            return ()
        mine = [i for i in self._instances.values() if i.offering_key == market.key]
        taken = tuple(i.id for i in mine if self._random.random() < market.dry_loss_share)
        for instance_id in taken:
            self.interrupt(instance_id)
        return taken

    def set_up(self, key: str, *, up: bool) -> tuple[str, ...]:
        """A market turns as a given series says; what runs dry takes machines back, which are returned."""
        state = self._markets[key]
        if state.up == up:
            return ()
        self._change(state, up=up)
        return () if up else self._take_some(state.market)

    def set_price(self, key: str, usd_per_hour: float) -> None:
        """A market's price from now on; the next listing shows it."""
        state = self._markets[key]
        state.market = replace(state.market, price_usd_per_hour=usd_per_hour)
        self._priced_s = -1.0

    def _change(self, state: MarketState, *, up: bool) -> None:
        state.up, state.up_since_s, state.turns = up, self.world.now_s, state.turns + 1
        self._priced_s = -1.0

    def _set(self, instance: Instance) -> None:
        self._instances[instance.id] = instance
        self._instance_tuple = None
