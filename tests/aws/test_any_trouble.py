"""Hours of drawn trouble on AWS, crashes among it: nothing leaks, no limit breaks, all work is done in the end."""

from datetime import timedelta
from random import Random

import pytest
import sqlalchemy as sa

from elastic.ledger_tables import INTENTS
from providers.sim.aws.trouble import AwsTrouble
from tests.aws.site import P4D, ZONES, AwsSite, a_burst, a_job, aws_policy
from tests.builders import NOW
from tests.simulation.desk import Crash, CrashableLedger

MAX_NODES = 9
TROUBLED_H, CALM_H = 4, 8
CODES = [
    ("InsufficientInstanceCapacity", 500), ("InternalError", 500), ("RequestLimitExceeded", 503),
    ("MaxSpotInstanceCountExceeded", 400), ("UnauthorizedOperation", 403), ("SomethingNew", 400),
]  # fmt: skip
ACTIONS = ["create_fleet", "terminate_instances", "describe_instances", "create_launch_template", "create_tags"]
CRASHES = ["before the token", "before the call", "after the call", "before the record", "after the record"]


def drawn_jobs(random):
    at_s = 0.0
    for number in range(30):
        at_s += random.expovariate(1 / (TROUBLED_H * 3600 / 45))
        gpus = random.choice([1, 4, 8, 8, 16, 24])
        runs_s = min(2 * 3600.0, 600 * random.paretovariate(0.9))
        yield a_job(f"j{number}", gpus, at_s=at_s, runs_s=runs_s, checkpointable=random.random() < 0.5)


def disturb(site, random):
    """One piece of trouble, of any kind."""
    trouble, alive = site.trouble, site.alive()
    kind = random.randrange(9)
    if kind == 0:
        code, status = random.choice(CODES)
        trouble.errors.setdefault(random.choice(ACTIONS), []).extend([(code, "drawn", status)] * random.choice([1, 3]))
    elif kind == 1:
        trouble.lost_replies[random.choice(["create_fleet", "terminate_instances"])] = 1
    elif kind == 2:
        until = site.clock.now() + timedelta(minutes=random.choice([2, 10, 25]))
        trouble.outages[random.choice(ACTIONS)] = random.choice(CODES)[0], until
    elif kind == 3:
        trouble.hide_new_s, trouble.bare_s = random.choice([0.0, 90.0]), random.choice([0.0, 200.0])
        trouble.pending_s, trouble.shutting_down_s = random.choice([0.0, 40.0]), random.choice([0.0, 100.0])
    elif kind == 4 and alive:
        site.aws.interrupt(random.choice(alive).id)
    elif kind == 5 and alive:
        site.aws.ec2.end_later(random.choice(alive).id, site.clock.now())
    elif kind == 6:
        trouble.stock[(P4D, random.choice(ZONES), "spot")] = random.choice([0, 1, 4])
        trouble.keeps_minimum = random.random() < 0.5
    elif kind == 7 and alive:
        lame = random.choice(alive).id
        site.joiner.never_joins = lambda instance: instance.id == lame
    elif kind == 8:
        known = [i.id for i in alive if site.cloud.instances.is_known(i.id)]
        trouble.hidden_ids = {i for i in known if random.random() < 0.3}


def tick(site, url, crash):
    """One tick, in which the process may die and come back."""
    site.ledger.crash = site.aws.crash = crash
    try:
        site.tick()
    except Crash:
        site.ledger.close()
        site.restart(CrashableLedger(url))
        site.trouble.hidden_ids = set()  # a process that has never seen a machine cannot miss it in a listing
    site.ledger.crash = site.aws.crash = ""


def calm_down(site):
    trouble = site.trouble
    for plan in (trouble.errors, trouble.outages, trouble.lost_replies, trouble.hidden_ids, trouble.stock):
        plan.clear()
    trouble.hide_new_s = trouble.bare_s = 0.0
    trouble.keeps_minimum = True
    site.joiner.never_joins = lambda instance: False


def written_tokens(site):
    with site.ledger.engine.connect() as connection:
        return {row[0] for row in connection.execute(sa.select(INTENTS.c.token))}


@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_nothing_leaks_no_limit_breaks_and_all_work_is_done(seed, tmp_path):
    random, url = Random(seed), f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    policy = aws_policy(burst={"burst": a_burst(max_nodes=MAX_NODES, capacity_types=("spot", "on-demand"))})
    site = AwsSite(drawn_jobs(random), policy=policy, trouble=AwsTrouble(), ledger=CrashableLedger(url))
    for _ in range(TROUBLED_H * 60):
        if random.random() < 1 / 8:
            disturb(site, random)
        tick(site, url, random.choice(CRASHES) if random.random() < 1 / 40 else "")
        alive = site.alive()
        assert len(alive) <= MAX_NODES
        assert {i.token for i in site.machines()} <= written_tokens(site), "a machine without a record"
        site.trouble.hidden_ids = set() if random.random() < 0.5 else site.trouble.hidden_ids
        site.clock.wait(60)
    calm_down(site)
    for _ in range(CALM_H * 12):
        site.tick()
        site.clock.wait(300)
    assert [j.id for j in site.cluster.read().jobs if j.id != "home"] == []
    assert site.alive() == []
    assert site.controller.state.in_flight == {}
    assert len(site.aws.ec2.templates) == 1
    assert site.aws.counts["create_fleet"] <= 200
    waited = site.clock.now() - NOW - timedelta(hours=TROUBLED_H + CALM_H)
    assert waited < timedelta(minutes=10), "a call that waits its turn keeps a tick for seconds at most"
    site.ledger.close()
