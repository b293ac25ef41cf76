"""One WSGI layer over moto: it injects trouble and fills moto's holes, so that an adapter meets what EC2 does.

Calls it knows are answered here, on top of moto's own machines; all others go through to moto. Started by `server`
(a process of its own, for tests) and by `like` (beside a simulated site, for the demo).
"""

import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from botocore.exceptions import ClientError
from botocore.session import get_session
from moto.core.exceptions import ServiceException
from moto.core.model import ServiceModel
from moto.core.parse import EC2QueryParser
from moto.core.serialize import EC2Serializer
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend
from moto.moto_api._internal.models import moto_api_backend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

from providers.sim.aws.layered import LayeredMachines
from providers.sim.aws.market import FakeMarket
from providers.sim.aws.rest import FakeRest
from providers.sim.aws.trouble import AwsTrouble

ACCOUNT_ID = "123456789012"  # moto's
EC2_VERSION = "2016-11-15"
NOTICE_S = 120.0  # EC2's spot interruption notice
# JSON services of which moto lacks a call, and who answers it here.
JSON_CALLS = {
    "AWSPriceListService.GetProducts": ("market", "get_products"),
    "ServiceQuotasV20190624.GetServiceQuota": ("rest", "get_service_quota"),
    "ServiceQuotasV20190624.ListServiceQuotas": ("rest", "list_service_quotas"),
    "AWSInsightsIndexService.GetCostAndUsage": ("rest", "get_cost_and_usage"),
}
StartResponse = Callable[[str, list[tuple[str, str]]], object]


class AwsLayer:
    """The WSGI application. `now` is the cloud's clock; `trouble` may be changed at any time."""

    def __init__(self, now: Callable[[], datetime], *, trouble: AwsTrouble | None = None) -> None:
        self.trouble, self.region = trouble or AwsTrouble(), "us-east-1"
        self._real_now, self._ahead = now, timedelta()
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._lock = threading.RLock()
        self._model = ServiceModel(
            get_session().get_component("data_loader").load_service_model("ec2", "service-2"), "ec2"
        )
        self.counts: Counter[str] = Counter()
        self._begin()

    def _begin(self) -> None:
        self.market = FakeMarket(self.now, self.trouble, region=self.region)
        self.market.zone_ids = {z.name: z.zone_id for z in RegionsAndZonesBackend.zones[self.region]}  # moto's own
        self.rest = FakeRest(self.trouble, account_id=ACCOUNT_ID)
        self.machines = LayeredMachines(
            self.now, self.trouble, region=self.region, reservations=self.market.reservations
        )

    def reset(self) -> None:
        """Forget everything, moto's own state too."""
        with self._lock:
            moto_api_backend.reset()
            self.trouble, self._ahead = AwsTrouble(), timedelta()
            self.counts.clear()
            self._begin()

    def now(self) -> datetime:
        """The cloud's time: the clock's, and what a test has advanced it by."""
        return self._real_now() + self._ahead

    def advance(self, seconds: float) -> None:
        """Time goes on for the cloud alone."""
        self._ahead += timedelta(seconds=seconds)

    def interrupt(self, instance_id: str, *, notice_s: float = NOTICE_S) -> bool:
        """The cloud takes a spot machine, after its notice; False if it is not there any more."""
        with self._lock:
            return self.machines.interrupt(instance_id, notice_s=notice_s)

    def announce(self, kind: str, instance_id: str, detail: Mapping[str, Any]) -> None:
        """Any other event of EC2 about a machine, through EventBridge."""
        with self._lock:
            self.machines.announce(kind, instance_id, detail)

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """One request."""
        path = str(environ.get("PATH_INFO", ""))
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = BytesIO(body)
        if path.startswith("/layer/"):
            return self._steered(path.removeprefix("/layer/"), body, start_response)
        target = str(environ.get("HTTP_X_AMZ_TARGET", ""))
        form = dict(parse_qsl(body.decode(), keep_blank_values=True)) if not target and body[:1] != b"{" else {}
        action = form.get("Action", "") or target.rpartition(".")[2]
        if not action:
            return self._passed(environ, start_response)
        name = _snake(action)
        with self._lock:
            self.counts[action] += 1
            is_later_page = bool(form.get("NextToken")) or b'"NextToken"' in body
            planned = self.trouble.planned(name, self.now(), is_later_page=is_later_page)
            loses_reply = False
            if planned is None:
                loses_reply = self.trouble.loses_reply(name)
        if delay_s := self.trouble.delay_s.get(name):
            threading.Event().wait(delay_s)
        if planned is not None:
            return _refused(start_response, *planned, is_json=bool(target))
        answer = self._answered(environ, start_response, form, target, body, name)
        if loses_reply:  # the effect took place, nobody hears of it
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        return answer

    def _answered(
        self, environ: dict[str, Any], start_response: StartResponse, form: Mapping[str, str], target: str, body: bytes,
        name: str,
    ) -> Iterable[bytes]:  # fmt: skip
        try:
            if target in JSON_CALLS:
                part, method = JSON_CALLS[target]
                asked = json.loads(body or b"{}")
                return _json_answer(start_response, getattr(getattr(self, part), method)(**asked))
            if form.get("Version") == EC2_VERSION and (found := self._method(name)) is not None:
                return self._ec2_answer(found, environ, start_response, form)
        except ClientError as trouble:
            error = trouble.response["Error"]
            status = int(trouble.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400))
            return _refused(start_response, error["Code"], error["Message"], status, is_json=bool(target))
        except ServiceException as trouble:  # of moto itself
            return _refused(start_response, trouble.code, trouble.message, 400, is_json=bool(target))
        return self._passed(environ, start_response)

    def _ec2_answer(
        self, found: Callable[..., dict[str, Any]], environ: dict[str, Any], start_response: StartResponse,
        form: Mapping[str, str],
    ) -> Iterable[bytes]:  # fmt: skip
        operation = self._model.operation_model(form["Action"])
        asked = EC2QueryParser(operation, timestamp_parser=_instant).parse({"values": form})
        if asked.pop("DryRun", False):
            return self._passed(environ, start_response)
        with self._lock:
            result = found(**asked)
        told = EC2Serializer(operation).serialize(result)
        start_response("200 OK", [("Content-Type", "text/xml")])
        return [told["body"].encode()]

    def _method(self, name: str) -> Callable[..., dict[str, Any]] | None:
        """Who answers an EC2 call here; None where moto does."""
        if name in ("create_fleet", "describe_instances", "terminate_instances"):
            return getattr(self.machines, name)  # type: ignore[no-any-return]
        if name in ("describe_spot_price_history", "get_spot_placement_scores", "describe_capacity_reservations"):
            return getattr(self.market, name)  # type: ignore[no-any-return]
        return None

    def _passed(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        answer: Iterable[bytes] = self._moto(environ, start_response)
        return answer

    # Steering by tests in other processes

    def _steered(self, what: str, body: bytes, start_response: StartResponse) -> list[bytes]:
        try:
            asked = json.loads(body or b"{}")
            self._steer(what, asked)
        except (AttributeError, KeyError, LookupError, TypeError, ValueError) as wrong:
            return _json_answer(start_response, {"wrong": f"/layer/{what}: {wrong!r}"}, status="400 Bad Request")
        return _json_answer(start_response, {"now": self.now().isoformat(), "counts": dict(self.counts)})

    def _steer(self, what: str, asked: dict[str, Any]) -> None:
        if what == "trouble":
            with self._lock:
                set_trouble(self.trouble, asked)
        elif what == "interrupt":
            if not self.interrupt(**asked):
                raise LookupError(f"{asked['instance_id']} is not running")
        elif what == "announce":
            self.announce(asked["kind"], asked["instance_id"], asked.get("detail", {}))
        elif what == "clock":
            self.advance(asked["seconds"])
        elif what == "reset":
            self.reset()
        elif what == "reservations":
            self.market.reservations[:] = [_reservation(row) for row in asked["rows"]]
        elif what == "bill":
            self.rest.bills[asked["day"]] = [(kind, usd) for kind, usd in asked["lines"]]
        elif what != "counts":
            raise LookupError("there is trouble, interrupt, announce, clock, reset, reservations, bill and counts")


def set_trouble(trouble: AwsTrouble, asked: Mapping[str, Any]) -> None:
    """Set fields from JSON: keys of several parts are written with slashes, sets as lists, instants as ISO texts."""
    for name, value in asked.items():
        if name in ("stock", "scores"):
            getattr(trouble, name).update({tuple(key.split("/")): count for key, count in value.items()})
        elif name == "spot_prices":
            for key, series in value.items():
                kind, zone = key.split("/")
                trouble.spot_prices[kind, zone] = [(datetime.fromisoformat(at), usd) for at, usd in series]
        elif name == "outages":
            trouble.outages = {key: (code, datetime.fromisoformat(until)) for key, (code, until) in value.items()}
        elif name == "errors":
            trouble.errors = {key: [(str(c), str(m), int(s)) for c, m, s in rows] for key, rows in value.items()}
        elif name == "hidden_ids":
            trouble.hidden_ids = set(value)
        elif name in AwsTrouble.__dataclass_fields__:
            setattr(trouble, name, value)
        else:
            raise LookupError(f"no such trouble: {name}")


def _reservation(row: Mapping[str, Any]) -> dict[str, Any]:
    return {k: datetime.fromisoformat(v) if k.endswith("Date") else v for k, v in row.items()}


def _instant(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _snake(action: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in action).lstrip("_")


def _json_answer(start_response: StartResponse, value: Mapping[str, Any], *, status: str = "200 OK") -> list[bytes]:
    start_response(status, [("Content-Type", "application/x-amz-json-1.1")])
    return [json.dumps(value, default=str).encode()]


def _refused(start_response: StartResponse, code: str, message: str, status: int, *, is_json: bool) -> list[bytes]:
    if is_json:
        start_response(f"{status} refused", [("Content-Type", "application/x-amz-json-1.1")])
        return [json.dumps({"__type": code, "message": message}).encode()]
    start_response(f"{status} refused", [("Content-Type", "text/xml")])
    error = f"<Errors><Error><Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error></Errors>"
    return [f"<Response>{error}<RequestID>layer</RequestID></Response>".encode()]
