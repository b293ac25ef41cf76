"""What the engine applied goes through boto3 into an AWS-like server: policies are accepted, a spot notice arrives."""

import json

import boto3
import pytest
from moto import mock_aws

from tests.real.terraform.engine import of_type

REGION = "us-east-1"
MACHINE = "i-0123456789abcdef0"
EVENTS = [
    ("aws.ec2", "EC2 Spot Instance Interruption Warning", {"instance-id": MACHINE, "instance-action": "terminate"}),
    ("aws.ec2", "EC2 Instance Rebalance Recommendation", {"instance-id": MACHINE}),
    ("aws.ec2", "EC2 Instance State-change Notification", {"instance-id": MACHINE, "state": "terminated"}),
    ("aws.health", "AWS Health Event", {"service": "EC2", "eventTypeCategory": "scheduledChange"}),
]
NOT_FOR_US = [
    ("aws.ec2", "EC2 Instance State-change Notification", {"instance-id": MACHINE, "state": "running"}),
    ("aws.health", "AWS Health Event", {"service": "RDS", "eventTypeCategory": "scheduledChange"}),
    ("somebody", "EC2 Spot Instance Interruption Warning", {"instance-id": MACHINE}),
]


@pytest.fixture
def aws(monkeypatch):
    """Clients of an empty AWS-like account."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with mock_aws():
        yield lambda service: boto3.client(service, region_name=REGION)


def ends(found, suffix):
    """The one resource whose address ends so."""
    (values,) = (v for address, v in found.items() if address.endswith(suffix))
    return values


def make_queues(aws, applied):
    queues = of_type(applied, "aws_sqs_queue")
    sqs = aws("sqs")
    for suffix in (".dead", ".events"):  # a queue names its dead-letter queue, which must be there
        queue = ends(queues, suffix)
        attributes = {
            "MessageRetentionPeriod": str(queue["message_retention_seconds"]),
            "VisibilityTimeout": str(queue["visibility_timeout_seconds"] or 30),
        } | ({"RedrivePolicy": queue["redrive_policy"]} if queue["redrive_policy"] else {})
        made = sqs.create_queue(QueueName=queue["name"], Attributes=attributes)["QueueUrl"]
        assert made == queue["url"]
    for policy in of_type(applied, "aws_sqs_queue_policy").values():
        sqs.set_queue_attributes(QueueUrl=policy["queue_url"], Attributes={"Policy": policy["policy"]})
    return sqs


def make_rules(aws, applied):
    events = aws("events")
    for rule in of_type(applied, "aws_cloudwatch_event_rule").values():
        made = events.put_rule(Name=rule["name"], EventPattern=rule["event_pattern"])["RuleArn"]
        assert made == rule["arn"]
    for target in of_type(applied, "aws_cloudwatch_event_target").values():
        wanted = {"Id": target["target_id"], "Arn": target["arn"]}
        assert events.put_targets(Rule=target["rule"], Targets=[wanted])["FailedEntryCount"] == 0
    return events


def sent(events, chosen):
    entries = [{"Source": s, "DetailType": t, "Detail": json.dumps(d)} for s, t, d in chosen]
    assert events.put_events(Entries=entries)["FailedEntryCount"] == 0


def received(sqs, url):
    answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=0)
    return [json.loads(m["Body"]) for m in answer.get("Messages", ())]


def test_every_notice_arrives_in_the_queue(aws, applied):
    sqs, events = make_queues(aws, applied), make_rules(aws, applied)
    sent(events, EVENTS)
    got = received(sqs, ends(of_type(applied, "aws_sqs_queue"), ".events")["url"])
    assert sorted((m["source"], m["detail-type"]) for m in got) == sorted((s, t) for s, t, _ in EVENTS)
    (spot,) = (m for m in got if m["detail-type"] == EVENTS[0][1])
    assert spot["detail"] == EVENTS[0][2]


def test_what_is_not_for_us_stays_out_of_the_queue(aws, applied):
    sqs, events = make_queues(aws, applied), make_rules(aws, applied)
    sent(events, NOT_FOR_US)
    for queue in of_type(applied, "aws_sqs_queue").values():
        assert received(sqs, queue["url"]) == []


def test_a_message_that_nobody_settles_ends_in_the_dead_letter_queue(aws, applied):
    sqs, events = make_queues(aws, applied), make_rules(aws, applied)
    queues = of_type(applied, "aws_sqs_queue")
    url, dead = ends(queues, ".events")["url"], ends(queues, ".dead")["url"]
    most = json.loads(ends(queues, ".events")["redrive_policy"])["maxReceiveCount"]
    sent(events, EVENTS[:1])
    for _ in range(most):
        (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=0)["Messages"]
        sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
    assert received(sqs, url) == []
    assert [m["detail-type"] for m in received(sqs, dead)] == [EVENTS[0][1]]


def test_roles_and_their_policies_are_accepted(aws, applied):
    iam = aws("iam")
    roles = of_type(applied, "aws_iam_role")
    for role in roles.values():
        tags = [{"Key": k, "Value": v} for k, v in role["tags"].items()]
        made = iam.create_role(RoleName=role["name"], AssumeRolePolicyDocument=role["assume_role_policy"], Tags=tags)
        assert made["Role"]["Arn"] == role["arn"]
    for policy in of_type(applied, "aws_iam_role_policy").values():
        iam.put_role_policy(RoleName=policy["role"], PolicyName=policy["name"], PolicyDocument=policy["policy"])
    for profile in of_type(applied, "aws_iam_instance_profile").values():
        iam.create_instance_profile(InstanceProfileName=profile["name"])
        iam.add_role_to_instance_profile(InstanceProfileName=profile["name"], RoleName=profile["role"])
    assert len(roles) == len(of_type(applied, "aws_iam_instance_profile")) == 2


def test_a_broken_policy_would_not_be_accepted(aws, applied):
    iam = aws("iam")
    role = ends(of_type(applied, "aws_iam_role"), ".controller")
    iam.create_role(RoleName=role["name"], AssumeRolePolicyDocument=role["assume_role_policy"])
    policy = ends(of_type(applied, "aws_iam_role_policy"), ".controller")["policy"].replace("Allow", "Alow")
    with pytest.raises(iam.exceptions.MalformedPolicyDocumentException):
        iam.put_role_policy(RoleName=role["name"], PolicyName="controller", PolicyDocument=policy)


def test_bucket_log_group_parameters_and_topic_are_accepted(aws, applied):
    s3, bucket = aws("s3"), ends(of_type(applied, "aws_s3_bucket"), ".cache")["bucket"]
    s3.create_bucket(Bucket=bucket)
    s3.put_bucket_policy(Bucket=bucket, Policy=ends(of_type(applied, "aws_s3_bucket_policy"), ".cache")["policy"])
    group = ends(of_type(applied, "aws_cloudwatch_log_group"), ".this")
    aws("logs").create_log_group(logGroupName=group["name"], tags=group["tags"])
    aws("logs").put_retention_policy(logGroupName=group["name"], retentionInDays=group["retention_in_days"])
    for parameter in of_type(applied, "aws_ssm_parameter").values():
        aws("ssm").put_parameter(Name=parameter["name"], Type=parameter["type"], Value=parameter["value"])
    topic = ends(of_type(applied, "aws_sns_topic"), ".budget")
    assert aws("sns").create_topic(Name=topic["name"])["TopicArn"] == topic["arn"]
    budget = ends(of_type(applied, "aws_budgets_budget"), ".burst")
    (tag_filter,) = budget["cost_filter"]
    assert tag_filter["values"] == ["user:elastic:owner$quant-desk"]
    wanted = {"BudgetName": budget["name"], "BudgetType": budget["budget_type"], "TimeUnit": budget["time_unit"]}
    limit = {"Amount": budget["limit_amount"], "Unit": budget["limit_unit"]}
    aws("budgets").create_budget(AccountId="123456789012", Budget=wanted | {"BudgetLimit": limit})


def test_networks_of_zones_are_accepted(aws, applied):
    ec2 = aws("ec2")
    (vpc,) = of_type(applied, "aws_vpc").values()
    made = ec2.create_vpc(CidrBlock=vpc["cidr_block"])["Vpc"]["VpcId"]
    subnets = of_type(applied, "aws_subnet").values()
    for subnet in subnets:  # blocks that overlap or lie outside are refused
        ec2.create_subnet(VpcId=made, CidrBlock=subnet["cidr_block"], AvailabilityZone=subnet["availability_zone"])
    assert len(subnets) == 5
