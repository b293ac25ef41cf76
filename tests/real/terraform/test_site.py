"""The example site: what its plan makes and never makes, who can reach it, and that a second plan changes nothing."""

import json
import os
import re
import subprocess
import sys

import pytest
from moto.utilities.utils import load_resource
from ruamel.yaml import YAML

from elastic.planning.policy import Cloud
from tests.real.terraform.conftest import VARIABLES
from tests.real.terraform.engine import SOURCES, of_type, resources
from tests.real.terraform.iam import changes_something, statements
from tests.real.terraform.programs import ROOT

HOST = "module.controller_host[0].aws_instance.controller"
# whatever of AWS makes a machine, by itself or by another service
MACHINE_MAKERS = re.compile(
    r"aws_(instance|spot_|ec2_fleet|ec2_capacity|autoscaling|launch_|eks_|ecs_|emr_|batch_|sagemaker_|lightsail_|pcs_"
    r"|parallelcluster|elastic_beanstalk|gamelift|opsworks|imagebuilder)"
)
BORDER = {"elastic:made-by": "terraform", "elastic:owner": "quant-desk"}
EVERYWHERE = {"0.0.0.0/0", "::/0"}
POLICY_ATTRIBUTES = ("policy", "assume_role_policy")


def policies(values):
    """(address, document) of every policy in force."""
    for resource in resources(values):
        for attribute in POLICY_ATTRIBUTES:
            if resource["values"].get(attribute):
                yield resource["address"], json.loads(resource["values"][attribute])


def test_the_only_machine_is_the_host_of_the_controller(planned):
    assert [r["address"] for r in resources(planned) if MACHINE_MAKERS.match(r["type"])] == [HOST]


def test_without_a_host_no_machine_at_all(engine, site):
    engine.run(site, "plan", "-no-color", "-input=false", VARIABLES, "-var=controller_host=null", "-out=bare.tfplan")
    made = list(resources(engine.shown(site, "bare.tfplan")["planned_values"]))
    assert len(made) > 30
    assert [r["address"] for r in made if MACHINE_MAKERS.match(r["type"])] == []


def test_no_module_can_make_a_machine_but_that_of_the_host():
    found = [
        f"{path.parent.name}: {kind}"
        for path in sorted(SOURCES.rglob("*.tf"))
        for kind in re.findall(r'^resource "(\w+)"', path.read_text(), re.MULTILINE)
        if MACHINE_MAKERS.match(kind)
    ]
    assert found == ["controller-host: aws_instance"]


def test_the_host_is_closed_and_encrypted(planned):
    host = of_type(planned, "aws_instance")[HOST]
    (metadata,) = host["metadata_options"]
    assert (metadata["http_tokens"], metadata["http_put_response_hop_limit"]) == ("required", 1)
    assert host["associate_public_ip_address"] is False
    assert all(volume["encrypted"] for volume in host["root_block_device"])
    assert [v["encrypted"] for v in of_type(planned, "aws_ebs_volume").values()] == [True]


def test_the_script_of_the_first_boot_is_small_and_whole(applied):
    script = of_type(applied, "aws_instance")[HOST]["user_data"]
    assert len(script.encode()) < 16_384
    assert "${" not in script
    assert "ConditionPathExists=/etc/elastic/policy.yaml" in script
    subprocess.run(["bash", "-n"], input=script, text=True, check=True, timeout=30)


def test_the_service_starts_the_controller_with_options_it_knows():
    unit = (SOURCES / "modules" / "controller-host" / "elastic.service").read_text()
    (line,) = re.findall(r"^ExecStart=/opt/elastic/bin/elastic (.*)$", unit, re.MULTILINE)
    command, *words = line.split()
    told = subprocess.run(
        [sys.executable, "-m", "elastic", command, "--help"], cwd=ROOT, capture_output=True, text=True, check=True,
        timeout=60, env={**os.environ, "COLUMNS": "200"},
    ).stdout  # fmt: skip
    options = [word for word in words if word.startswith("--")]
    assert len(options) == 2
    assert [option for option in options if option not in told] == []


def test_nothing_is_open_to_the_internet(planned):
    rules = of_type(planned, "aws_vpc_security_group_ingress_rule")
    assert len(rules) >= 2
    assert [a for a, rule in rules.items() if {rule["cidr_ipv4"], rule["cidr_ipv6"]} & EVERYWHERE] == []
    groups = of_type(planned, "aws_security_group") | of_type(planned, "aws_default_security_group")
    assert [a for a, group in groups.items() if group.get("ingress")] == []
    assert [a for a, subnet in of_type(planned, "aws_subnet").items() if subnet["map_public_ip_on_launch"]] == []


def test_everything_that_takes_tags_carries_the_border(planned, schema):
    tagged = [r for r in resources(planned) if "tags" in schema["resource_schemas"][r["type"]]["block"]["attributes"]]
    assert len(tagged) > 30
    assert [r["address"] for r in tagged if not BORDER.items() <= (r["values"]["tags"] or {}).items()] == []


def test_a_statement_on_everything_only_reads(applied):
    found = list(policies(applied))
    assert len(found) >= 8
    for address, document in found:
        for statement in statements(document):
            if statement["Effect"] == "Allow" and "*" in statement["Resource"]:
                assert [a for a in statement["Action"] if changes_something(a)] == [], (address, statement["Sid"])


def test_no_policy_allows_by_a_wildcard_in_the_action(applied):
    for address, document in policies(applied):
        for statement in statements(document):
            assert statement["Effect"] == "Deny" or not any("*" in a for a in statement["Action"]), address


@pytest.mark.parametrize("queue", ["events", "dead"])
def test_only_our_rules_may_write_to_a_queue(applied, queue):
    (values,) = (v for a, v in of_type(applied, "aws_sqs_queue_policy").items() if a.endswith(f'["{queue}"]'))
    allowed = [s for s in json.loads(values["policy"])["Statement"] if s["Effect"] == "Allow"]
    assert len(allowed) == 1
    assert allowed[0]["Principal"] == {"Service": "events.amazonaws.com"}
    rules = {rule["arn"] for rule in of_type(applied, "aws_cloudwatch_event_rule").values()}
    assert len(rules) == 4
    assert set(allowed[0]["Condition"]["ArnEquals"]["aws:SourceArn"]) == rules


def test_a_second_plan_changes_nothing(engine, site, applied):
    told = engine.run(site, "plan", "-no-color", "-input=false", "-detailed-exitcode", VARIABLES, codes=(0, 2))
    assert "No changes." in told, told


def test_the_policy_file_takes_what_was_made(engine, site, applied):
    outputs = {name: o["value"] for name, o in json.loads(engine.run(site, "output", "-json")).items()}
    part = YAML(typ="safe", pure=True).load(outputs["cloud_for_the_policy"])
    cloud = Cloud.model_validate(part["clouds"]["aws"])
    subnets = [v for a, v in of_type(applied, "aws_subnet").items() if ".nodes[" in a]
    assert cloud.subnets == {s["availability_zone"]: s["id"] for s in subnets}
    assert cloud.queue_url in {q["url"] for q in of_type(applied, "aws_sqs_queue").values()}
    assert cloud.instance_profile in {p["name"] for p in of_type(applied, "aws_iam_instance_profile").values()}
    assert set(cloud.security_groups) < {g["id"] for g in of_type(applied, "aws_security_group").values()}
    parameters = {p["name"] for p in of_type(applied, "aws_ssm_parameter").values()}
    assert set(outputs["images"]) == {"burst"}
    assert {image.removeprefix("resolve:ssm:") for image in outputs["images"].values()} <= parameters


# Instance types

TYPE_NAME = re.compile(
    r"(?<![\w./-])([a-z]+[0-9][a-z0-9-]*\.(?:\*|nano|micro|small|medium|large|metal|[0-9]*xlarge))(?![\w])"
)


def named_types():
    texts = [p for kind in ("*.tf", "*.tfvars", "*.hcl", "*.md") for p in SOURCES.rglob(kind)]
    return sorted({name for path in texts for name in TYPE_NAME.findall(path.read_text())})


def test_every_instance_type_that_is_named_exists():
    known = load_resource("ec2/resources/instance_types.json")
    named = named_types()
    assert {"t3.small", "p5.48xlarge", "g6e.*"} <= set(named)
    patterns = {name: re.compile(re.escape(name).replace(r"\*", ".*")) for name in named}
    assert [name for name, pattern in patterns.items() if not any(map(pattern.fullmatch, known))] == []


def test_every_zone_of_the_example_has_some_of_its_types():
    text = (SOURCES / "examples" / "site" / "example.tfvars").read_text()
    place = "ec2/resources/instance_type_offerings/availability-zone/us-east-1.json"
    offered = load_resource(place)
    for zone in re.findall(r"us-east-1[a-z]", text):
        here = [o["InstanceType"] for o in offered if o["Location"] == zone]
        wanted = [re.compile(re.escape(t).replace(r"\*", ".*")) for t in TYPE_NAME.findall(text)]
        assert sum(any(map(w.fullmatch, here)) for w in wanted) >= 3, zone
