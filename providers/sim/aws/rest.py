"""The small services beside EC2, in memory: who we are, what we may, quotas, parameters, the bill."""

from datetime import date, timedelta
from typing import Any

from providers.sim.aws.trouble import AwsTrouble, refused

# vCPUs by quota code where a test sets none: enough for a thousand nodes of the largest kind.
DEFAULT_VCPUS = 192_000.0
# EC2's limits of GPU families, by code (Service Quotas).
QUOTAS = {
    "L-417A185B": "Running On-Demand P instances",
    "L-DB2E81BA": "Running On-Demand G and VT instances",
    "L-7212CCBC": "All P4, P3 and P2 Spot Instance Requests",
    "L-C4BD4855": "All P5 Spot Instance Requests",
    "L-3819A6DF": "All G and VT Spot Instance Requests",
}


class FakeRest:
    """STS, IAM's simulation, Service Quotas, SSM and Cost Explorer."""

    def __init__(self, trouble: AwsTrouble, *, account_id: str) -> None:
        self._trouble, self._account_id = trouble, account_id
        self.parameters: dict[str, str] = {}
        self.denied: set[str] = set()  # actions that the simulation denies
        self.bills: dict[str, list[tuple[str, float]]] = {}  # (usage type, USD) by day

    def get_caller_identity(self) -> dict[str, Any]:
        """The controller's role."""
        arn = f"arn:aws:sts::{self._account_id}:assumed-role/elastic-controller/session"
        return {"UserId": "AROA:session", "Account": self._account_id, "Arn": arn}

    def simulate_principal_policy(self, *, PolicySourceArn: str, ActionNames: list[str], **more: Any) -> dict[str, Any]:
        """Allowed, unless a test denied it."""
        rows = [
            {"EvalActionName": a, "EvalDecision": "implicitDeny" if a in self.denied else "allowed"}
            for a in ActionNames
        ]
        return {"EvaluationResults": rows, "IsTruncated": False}

    def get_service_quota(self, *, ServiceCode: str, QuotaCode: str, **more: Any) -> dict[str, Any]:
        """A vCPU limit."""
        if ServiceCode != "ec2" or QuotaCode not in QUOTAS:
            raise refused("NoSuchResourceException", "The request failed because the specified quota does not exist.")
        return {"Quota": self._quota(QuotaCode)}

    def list_service_quotas(self, *, ServiceCode: str, **more: Any) -> dict[str, Any]:
        """All vCPU limits."""
        return {"Quotas": [self._quota(code) for code in QUOTAS] if ServiceCode == "ec2" else []}

    def _quota(self, code: str) -> dict[str, Any]:
        vcpus = self._trouble.vcpu_quotas.get(code, DEFAULT_VCPUS)
        return {"ServiceCode": "ec2", "QuotaCode": code, "QuotaName": QUOTAS[code], "Value": vcpus, "Unit": "None"}

    def get_parameter(self, *, Name: str, **more: Any) -> dict[str, Any]:
        """A parameter a test has put."""
        if Name not in self.parameters:
            raise refused("ParameterNotFound", f"Parameter {Name} not found.")
        return {"Parameter": {"Name": Name, "Value": self.parameters[Name]}}

    def get_cost_and_usage(self, *, TimePeriod: dict[str, str], **more: Any) -> dict[str, Any]:
        """The seeded bill by usage type, a result for each day; the end is not part of the period."""
        first, end = date.fromisoformat(TimePeriod["Start"]), date.fromisoformat(TimePeriod["End"])
        if first >= end:
            raise refused("ValidationException", "Start date (and hour) should be before end date (and hour)")
        return {"ResultsByTime": [self._billed(first + timedelta(days=n)) for n in range((end - first).days)]}

    def _billed(self, day: date) -> dict[str, Any]:
        groups = [
            {"Keys": [kind], "Metrics": {"UnblendedCost": {"Amount": f"{usd}", "Unit": "USD"}}}
            for kind, usd in self.bills.get(day.isoformat(), ())
        ]
        total = {} if groups else {"UnblendedCost": {"Amount": "0", "Unit": "USD"}}
        period = {"Start": day.isoformat(), "End": (day + timedelta(days=1)).isoformat()}
        return {"TimePeriod": period, "Total": total, "Groups": groups, "Estimated": False}
