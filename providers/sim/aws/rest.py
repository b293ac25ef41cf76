"""The small services beside EC2, in memory: who we are, what we may, quotas, parameters, the bill."""

from typing import Any

from providers.sim.aws.trouble import AwsTrouble

# vCPUs by quota code where a test sets none: enough for a thousand nodes of the largest kind.
DEFAULT_VCPUS = 192_000.0


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

    def get_service_quota(self, *, ServiceCode: str, QuotaCode: str) -> dict[str, Any]:
        """A vCPU limit."""
        vcpus = self._trouble.vcpu_quotas.get(QuotaCode, DEFAULT_VCPUS)
        return {"Quota": {"ServiceCode": ServiceCode, "QuotaCode": QuotaCode, "QuotaName": QuotaCode, "Value": vcpus}}

    def get_parameter(self, *, Name: str, **more: Any) -> dict[str, Any]:
        """A parameter a test has put."""
        return {"Parameter": {"Name": Name, "Value": self.parameters[Name]}}

    def get_cost_and_usage(self, *, TimePeriod: dict[str, str], **more: Any) -> dict[str, Any]:
        """The seeded bill of a day, by usage type."""
        groups = [
            {"Keys": [kind], "Metrics": {"UnblendedCost": {"Amount": f"{usd}", "Unit": "USD"}}}
            for kind, usd in self.bills.get(TimePeriod["Start"], ())
        ]
        total = {} if groups else {"UnblendedCost": {"Amount": "0", "Unit": "USD"}}
        return {"ResultsByTime": [{"TimePeriod": TimePeriod, "Total": total, "Groups": groups, "Estimated": False}]}
