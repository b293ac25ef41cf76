"""The queue, the market and the small services of the AWS in memory answer and refuse as AWS does."""

import json
from datetime import timedelta

import pytest
from botocore.exceptions import ClientError

from providers.sim.aws.fake import FakeAws
from providers.sim.aws.market import IMAGE
from providers.sim.aws.queue import QUEUE_URL
from tests.builders import NOW
from tests.providers.aws_memory import P4D, P4DE, A, World, code_of, ids

OTHER_QUEUE = "https://sqs.us-east-1.amazonaws.com/210987654321/theirs"


def client(world, service):
    return world.aws.clients(service)


# Queue


def test_messages_are_sent_received_ten_at_most_and_deleted():
    world = World()
    for number in range(12):
        world.sqs.send_message(QueueUrl=QUEUE_URL, MessageBody=f"{number}")
    first = world.sqs.receive_message(QueueUrl=QUEUE_URL, MaxNumberOfMessages=10)["Messages"]
    assert [m["Body"] for m in first] == [f"{n}" for n in range(10)]
    second = world.sqs.receive_message(QueueUrl=QUEUE_URL, MaxNumberOfMessages=10)["Messages"]
    assert [m["Body"] for m in second] == ["10", "11"]
    assert "Messages" not in world.sqs.receive_message(QueueUrl=QUEUE_URL), "all are in somebody's hands"
    entries = [{"Id": f"{n}", "ReceiptHandle": m["ReceiptHandle"]} for n, m in enumerate(first)]
    assert len(world.sqs.delete_message_batch(QueueUrl=QUEUE_URL, Entries=entries)["Successful"]) == 10
    world.sqs.delete_message(QueueUrl=QUEUE_URL, ReceiptHandle=second[0]["ReceiptHandle"])
    attributes = world.sqs.get_queue_attributes(QueueUrl=QUEUE_URL, AttributeNames=["All"])["Attributes"]
    assert attributes["ApproximateNumberOfMessages"] == "1"


def test_a_message_may_come_later_and_is_seen_at_once_again_without_a_timeout():
    world = World()
    world.sqs.send_message(QueueUrl=QUEUE_URL, MessageBody="x", DelaySeconds=60)
    assert "Messages" not in world.sqs.receive_message(QueueUrl=QUEUE_URL)
    world.clock.wait(61)
    for _ in range(2):
        assert len(world.sqs.receive_message(QueueUrl=QUEUE_URL, VisibilityTimeout=0)["Messages"]) == 1


def test_what_sqs_refuses_is_refused():
    world = World()
    with pytest.raises(ClientError) as raised:
        world.sqs.receive_message(QueueUrl=OTHER_QUEUE)
    assert code_of(raised) == "AWS.SimpleQueueService.NonExistentQueue"
    with pytest.raises(ClientError) as raised:
        world.sqs.receive_message(QueueUrl=QUEUE_URL, MaxNumberOfMessages=11)
    assert code_of(raised) == "InvalidParameterValue"
    many = [{"Id": f"{n}", "ReceiptHandle": "m-1#1"} for n in range(11)]
    with pytest.raises(ClientError) as raised:
        world.sqs.delete_message_batch(QueueUrl=QUEUE_URL, Entries=many)
    assert code_of(raised) == "AWS.SimpleQueueService.TooManyEntriesInBatchRequest"
    assert world.sqs.get_queue_url(QueueName="notices")["QueueUrl"] == QUEUE_URL
    with pytest.raises(ClientError) as raised:
        world.sqs.get_queue_url(QueueName="theirs")
    assert code_of(raised) == "AWS.SimpleQueueService.NonExistentQueue"


def test_an_event_is_of_the_region_of_its_machine():
    aws = FakeAws(lambda: NOW, region="eu-west-1")
    aws.rebalance("i-1")
    (message,) = aws.clients("sqs").receive_message(QueueUrl=QUEUE_URL)["Messages"]
    event = json.loads(message["Body"])
    assert event["region"] == "eu-west-1"
    assert event["resources"] == ["arn:aws:ec2:eu-west-1:123456789012:instance/i-1"]


# Market


def test_types_and_their_zones_come_in_pages():
    world = World()
    first = world.ec2.describe_instance_types(MaxResults=5)
    second = world.ec2.describe_instance_types(MaxResults=5, NextToken=first["NextToken"])
    names = [t["InstanceType"] for page in (first, second) for t in page["InstanceTypes"]]
    assert names == list(world.aws.market.types)
    assert not second["NextToken"]
    assert len(world.ec2.describe_instance_types()["InstanceTypes"]) == len(names)
    zones = world.ec2.describe_instance_type_offerings(LocationType="availability-zone", MaxResults=1000)
    assert len(zones["InstanceTypeOfferings"]) == 3 * len(names)


def test_a_type_that_does_not_exist_is_refused_by_name_and_is_nothing_to_a_filter():
    world = World()
    assert [t["InstanceType"] for t in world.ec2.describe_instance_types(InstanceTypes=[P4D])["InstanceTypes"]] == [P4D]
    with pytest.raises(ClientError, match=r"p99\.huge") as raised:
        world.ec2.describe_instance_types(InstanceTypes=[P4D, "p99.huge"])
    assert code_of(raised) == "InvalidInstanceType"
    wanted = [{"Name": "instance-type", "Values": ["p99.huge"]}]
    assert world.ec2.describe_instance_types(Filters=wanted)["InstanceTypes"] == []


def test_spot_prices_are_of_linux_of_the_zone_and_of_the_time_asked_for():
    series = [(NOW - timedelta(hours=n), float(n)) for n in (4, 3, 2, 1)]
    world = World(spot_prices={(P4D, A): series})

    def told(**asked):
        rows = world.ec2.describe_spot_price_history(InstanceTypes=[P4D], AvailabilityZone=A, **asked)
        return [float(r["SpotPrice"]) for r in rows["SpotPriceHistory"]]

    assert told() == [1.0], "without a start the price that holds now"
    assert told(StartTime=NOW - timedelta(hours=5)) == [4.0, 3.0, 2.0, 1.0]
    assert told(StartTime=NOW - timedelta(hours=3), EndTime=NOW - timedelta(hours=2)) == [3.0, 2.0]
    assert told(ProductDescriptions=["Windows"]) == []
    page = world.ec2.describe_spot_price_history(
        StartTime=NOW - timedelta(hours=5), InstanceTypes=[P4D], AvailabilityZone=A, MaxResults=3
    )
    assert len(page["SpotPriceHistory"]) == 3
    assert told(StartTime=NOW - timedelta(hours=5), NextToken=page["NextToken"]) == [1.0]


def test_the_price_list_tells_json_texts_and_scores_tell_the_best_type_of_a_zone():
    world = World(on_demand_prices={P4D: 22.0}, scores={(P4D, A): 3, (P4DE, A): 9})
    kind = [{"Type": "TERM_MATCH", "Field": "instanceType", "Value": P4D}]
    (text,) = client(world, "pricing").get_products(ServiceCode="AmazonEC2", Filters=kind)["PriceList"]
    dimensions = json.loads(text)["terms"]["OnDemand"]["T"]["priceDimensions"]
    assert dimensions["D"]["pricePerUnit"] == {"USD": "22.0"}
    scores = world.ec2.get_spot_placement_scores(InstanceTypes=[P4D, P4DE], TargetCapacity=1)["SpotPlacementScores"]
    zones = {z["ZoneId"]: z["ZoneName"] for z in world.ec2.describe_availability_zones()["AvailabilityZones"]}
    assert {zones[s["AvailabilityZoneId"]]: s["Score"] for s in scores}[A] == 9


def test_an_image_that_a_test_adds_is_there_and_boots_machines():
    world = World()
    with pytest.raises(ClientError) as raised:
        world.ec2.describe_images(ImageIds=["ami-new"])
    assert code_of(raised) == "InvalidAMIID.NotFound"
    world.aws.market.images["ami-new"] = {"ImageId": "ami-new", "State": "available"}
    assert len(world.ec2.describe_images(ImageIds=["ami-new"])["Images"]) == 1
    assert {i["ImageId"] for i in world.ec2.describe_images()["Images"]} == {IMAGE, "ami-new"}
    world.template_id = world.template("new", ImageId="ami-new")
    assert len(ids(world.fleet(1))) == 1


# Small services


def test_quotas_are_told_one_by_one_and_as_a_list():
    world = World(vcpu_quotas={"L-7212CCBC": 96.0})
    quotas = client(world, "service-quotas")
    one = quotas.get_service_quota(ServiceCode="ec2", QuotaCode="L-7212CCBC")["Quota"]
    assert one["Value"] == 96.0
    assert one in quotas.list_service_quotas(ServiceCode="ec2")["Quotas"]
    with pytest.raises(ClientError) as raised:
        quotas.get_service_quota(ServiceCode="ec2", QuotaCode="L-00000000")
    assert code_of(raised) == "NoSuchResourceException"


def test_the_bill_has_a_result_for_each_day_and_none_for_the_end():
    world = World()
    world.aws.rest.bills["2026-12-02"] = [("SpotUsage:p4d.24xlarge", 12.5), ("DataTransfer-Out-Bytes", 0.5)]
    asked = {"Granularity": "DAILY", "Metrics": ["UnblendedCost"]}
    answer = client(world, "ce").get_cost_and_usage(TimePeriod={"Start": "2026-12-01", "End": "2026-12-03"}, **asked)
    first, second = answer["ResultsByTime"]
    assert (first["Groups"], first["Total"]["UnblendedCost"]["Amount"]) == ([], "0")
    assert second["TimePeriod"] == {"Start": "2026-12-02", "End": "2026-12-03"}
    assert [float(g["Metrics"]["UnblendedCost"]["Amount"]) for g in second["Groups"]] == [12.5, 0.5]
    with pytest.raises(ClientError) as raised:
        client(world, "ce").get_cost_and_usage(TimePeriod={"Start": "2026-12-03", "End": "2026-12-03"}, **asked)
    assert code_of(raised) == "ValidationException"


def test_parameters_identity_and_rights():
    world = World()
    world.aws.rest.parameters["/gpu/image"] = IMAGE
    assert client(world, "ssm").get_parameter(Name="/gpu/image")["Parameter"]["Value"] == IMAGE
    with pytest.raises(ClientError) as raised:
        client(world, "ssm").get_parameter(Name="/other")
    assert code_of(raised) == "ParameterNotFound"
    arn = client(world, "sts").get_caller_identity()["Arn"]
    world.aws.rest.denied.add("ec2:CreateFleet")
    rows = client(world, "iam").simulate_principal_policy(
        PolicySourceArn=arn, ActionNames=["ec2:CreateFleet", "ec2:DescribeInstances"]
    )["EvaluationResults"]
    assert {r["EvalActionName"]: r["EvalDecision"] for r in rows} == {
        "ec2:CreateFleet": "implicitDeny",
        "ec2:DescribeInstances": "allowed",
    }


def test_a_service_or_call_that_is_not_here_is_no_attribute():
    world = World()
    for call in (client(world, "ec2").stop_instances, client(world, "lambda").invoke):
        with pytest.raises(AttributeError):
            call()
