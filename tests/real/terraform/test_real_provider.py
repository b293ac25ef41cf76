"""With the AWS provider itself, where a machine has it: its value rules on the plan, its own apply against moto.

`TERRAFORM_AWS_MIRROR` names a folder laid out as a filesystem mirror; a few usual places are looked at besides.
"""

import os
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.real.terraform.conftest import VARIABLES
from tests.real.terraform.engine import Engine, bare_environment, copied, resources

PLACES = ("~/.terraform.d/plugins", "/usr/local/share/terraform/plugins")
SERVICES = ("ec2", "sqs", "events", "iam", "sts", "ssm", "s3", "sns", "budgets", "logs")
# what moto answers as this provider waits for it, without minutes of waiting
APPLIED = ("module.network", "module.security_groups", "module.node_role", "module.log_group")
# moto forgets the description of a rule that names a group in place of addresses
FORGOTTEN = {
    ("module.security_groups.aws_vpc_security_group_egress_rule.nodes_to_nodes", "description"),
    ("module.security_groups.aws_vpc_security_group_ingress_rule.nodes_from_nodes", "description"),
}
OVERRIDE = """
provider "aws" {{
  region                      = var.region
  access_key                  = "testing"
  secret_key                  = "testing"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  s3_use_path_style           = true

  endpoints {{
{endpoints}
  }}
}}
"""


def mirror():
    """The first place that holds a version of the provider; skips without one."""
    for place in filter(None, (os.environ.get("TERRAFORM_AWS_MIRROR"), *PLACES)):
        folder = Path(place).expanduser()
        if list(folder.glob("registry.terraform.io/hashicorp/aws/*/linux_amd64/terraform-provider-aws*")):
            return folder
    return pytest.skip("the AWS provider itself is not here: TERRAFORM_AWS_MIRROR names no mirror")


@pytest.fixture(scope="module")
def server():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield f"http://127.0.0.1:{server.get_host_and_port()[1]}"
    server.stop()


@pytest.fixture(scope="module")
def real_site(engine_command, server, tmp_path_factory):
    """(engine, folder) of the example site with the provider itself, which talks to moto."""
    folder = tmp_path_factory.mktemp("real")
    settings = folder / "engine.tfrc"
    settings.write_text(f'provider_installation {{\n  filesystem_mirror {{ path = "{mirror()}" }}\n}}\n')
    environment = bare_environment() | {"TF_CLI_CONFIG_FILE": str(settings)}
    engine = Engine(command=engine_command, environment=environment, tree=copied(folder / "tree"))
    site = engine.tree / "examples" / "site"
    endpoints = "\n".join(f'    {name} = "{server}"' for name in SERVICES)
    (site / "moto_override.tf").write_text(OVERRIDE.format(endpoints=endpoints))
    engine.init(site)
    return engine, site


def test_the_provider_itself_plans_what_the_stand_in_plans(real_site, planned):
    engine, site = real_site
    engine.run(site, "validate", "-no-color")
    engine.run(site, "plan", "-no-color", "-input=false", VARIABLES, "-out=real.tfplan")
    found = {r["address"] for r in resources(engine.shown(site, "real.tfplan")["planned_values"])}
    assert found == {r["address"] for r in resources(planned)}


def test_a_module_that_its_test_applies_passes_with_the_provider_itself_and_no_account(real_site):
    engine, _ = real_site
    folder = engine.tree / "modules" / "budget-alarm"
    engine.init(folder)
    assert "3 passed, 0 failed" in engine.run(folder, "test", "-no-color")


def changed(plan):
    """(address, attribute) of all that a plan would change, make or remove."""
    found = {r["address"]: r["change"] for r in plan["resource_changes"] if r["change"]["actions"] != ["no-op"]}
    sides = {address: (c["before"] or {}, c["after"] or {}) for address, c in found.items()}
    return {(a, key) for a, (old, new) in sides.items() for key in old | new if old.get(key) != new.get(key)}


@pytest.mark.slow
def test_the_provider_itself_makes_networks_and_roles_and_then_has_nothing_to_do(real_site, server):
    engine, site = real_site
    words = ("-no-color", "-input=false", VARIABLES, "-var=nat=none", *(f"-target={m}" for m in APPLIED))
    engine.run(site, "apply", "-auto-approve", *words)
    engine.run(site, "plan", *words, "-out=again.tfplan")
    assert changed(engine.shown(site, "again.tfplan")) <= FORGOTTEN
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing", "region_name": "us-east-1"}
    ec2 = boto3.client("ec2", endpoint_url=server, **keys)
    ours = [{"Name": "tag:elastic:made-by", "Values": ["terraform"]}]
    groups = ec2.describe_security_groups(Filters=ours)["SecurityGroups"]
    assert len(groups) == 3
    open_to = {r["CidrIp"] for g in groups for p in g["IpPermissions"] for r in p["IpRanges"]}
    assert open_to == {"10.20.0.0/16"}
    subnets = ec2.describe_subnets(Filters=ours)["Subnets"]
    assert sorted(s["AvailabilityZone"] for s in subnets) == [f"us-east-1{z}" for z in "abcd"]
    assert ec2.describe_instances()["Reservations"] == []
