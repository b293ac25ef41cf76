"""An AWS in memory: clients that look like boto3's, over one account and region, with trouble on demand.

`FakeAws(now).clients` is what `providers.aws.calls` takes for boto3. Arguments are checked by botocore's own models, so
that nothing passes here that AWS would refuse for its shape.
"""

import threading
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import botocore.session
from botocore.exceptions import ConnectionClosedError, ParamValidationError
from botocore.validate import ParamValidator

from providers.sim.aws.ec2 import FakeEc2
from providers.sim.aws.machines import is_alive
from providers.sim.aws.market import FakeMarket
from providers.sim.aws.queue import FakeQueue
from providers.sim.aws.rest import FakeRest
from providers.sim.aws.templates import FakeTemplates
from providers.sim.aws.trouble import AwsTrouble, refused

ACCOUNT_ID = "123456789012"


class FakeAws:
    """One account and region. `wait` is called for delays, outside every lock."""

    def __init__(
        self,
        now: Callable[[], datetime],
        *,
        region: str = "us-east-1",
        trouble: AwsTrouble | None = None,
        wait: Callable[[float], None] = lambda seconds: None,
        checks_arguments: bool = True,
    ) -> None:
        self.now, self.region, self.trouble = now, region, trouble or AwsTrouble()
        self._wait, self._checks = wait, checks_arguments
        self._lock = threading.RLock()
        self.counts: Counter[str] = Counter()
        self.market = FakeMarket(now, self.trouble, region=region)
        self.templates = FakeTemplates(now)
        self.ec2 = FakeEc2(now, self.trouble, market=self.market, templates=self.templates)
        self.queue = FakeQueue(now, region=region)
        self.rest = FakeRest(self.trouble, account_id=ACCOUNT_ID)
        self._parts = {
            "ec2": (self.ec2, self.templates, self.market),
            "pricing": (self.market,),
            "sqs": (self.queue,),
            "sts": (self.rest,), "iam": (self.rest,), "ssm": (self.rest,), "ce": (self.rest,),
            "service-quotas": (self.rest,),
        }  # fmt: skip

    def clients(self, service: str) -> "Client":
        """The client of a service."""
        return Client(self, service)

    def interrupt(self, instance_id: str, *, notice_s: float = 120.0) -> None:
        """The two-minute notice into the queue, and the end of the machine after it. Refused for one that has ended."""
        with self._lock:
            row = self.ec2.truth().get(instance_id)
            if row is None or not is_alive(row):
                raise refused("InvalidInstanceID.NotFound", f"The instance ID '{instance_id}' is not running")
            self.queue.announce("EC2 Spot Instance Interruption Warning", instance_id, {"instance-action": "terminate"})
            self.ec2.end_later(instance_id, self.now() + timedelta(seconds=notice_s))

    def rebalance(self, instance_id: str) -> None:
        """The earlier hint: nothing is certain."""
        with self._lock:
            self.queue.announce("EC2 Instance Rebalance Recommendation", instance_id, {})

    def call(self, service: str, action: str, asked: dict[str, Any]) -> dict[str, Any]:
        """One call, counted, delayed, refused or with its answer lost, as planned."""
        part = next((p for p in self._parts.get(service, ()) if callable(getattr(p, action, None))), None)
        if part is None:
            raise AttributeError(f"{service} has no {action} here")
        if self._checks:
            _check(service, action, asked)
        if delay_s := self.trouble.delay_s.get(action):
            self._wait(delay_s)
        with self._lock:
            self.counts[action] += 1
            if planned := self.trouble.planned(action, self.now(), is_later_page=bool(asked.get("NextToken"))):
                code, message, status = planned
                raise refused(code, message, status=status, action=action)
            if asked.pop("DryRun", False):
                raise refused("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", status=412)
            answer: dict[str, Any] = getattr(part, action)(**asked)
            lost = self.trouble.loses_reply(action)
        if lost:
            raise ConnectionClosedError(endpoint_url=f"https://{service}.{self.region}.amazonaws.com")
        return answer


class Client:
    """Looks like a boto3 client: a method for each call the fake knows."""

    def __init__(self, aws: FakeAws, service: str) -> None:
        self._aws, self._service = aws, service

    def __getattr__(self, action: str) -> Callable[..., dict[str, Any]]:
        if action.startswith("_"):
            raise AttributeError(action)
        return lambda **asked: self._aws.call(self._service, action, asked)


@cache
def _model(service: str) -> Any:
    return botocore.session.get_session().get_service_model(service)


@cache
def _shape(service: str, action: str) -> Any:
    model = _model(service)
    name = next(n for n in model.operation_names if n.lower() == action.replace("_", ""))
    return model.operation_model(name).input_shape


def _check(service: str, action: str, asked: dict[str, Any]) -> None:
    report = ParamValidator().validate(asked, _shape(service, action))
    if report.has_errors():
        raise ParamValidationError(report=report.generate_report())
