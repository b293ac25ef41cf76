"""What stands behind a policy's clouds: nothing real is rented by accident, and what cannot be used is said."""

from dataclasses import replace
from pathlib import Path

import pytest

from elastic.planning.policy import Cloud, Mode
from elastic.policy_file import default_policy_path, load_policy
from elastic.wiring import SiteError, simulated_site
from elastic.wiring_aws import account_of, aws_clouds
from providers.clock import SystemClock
from tests.builders import NOW

AWS = {
    "kind": "aws", "region": "us-east-1", "owner": "desk", "controller": "one", "image": "ami-0a1b2c3d",
    "subnets": {"us-east-1a": "subnet-0a1b2c3d"}, "security_groups": ("sg-0a1b2c3d",),
}  # fmt: skip


def policy(mode=Mode.ACT, **changes):
    known = load_policy(default_policy_path(), at=NOW)
    return replace(known, mode=mode, clouds={"sim": Cloud(**{**AWS, **changes})})


def site(of, **options):
    return simulated_site(of, start=NOW, seed=1, **{"speed": 1.0, **options})


def test_a_simulated_queue_does_not_rent_real_machines_unless_somebody_says_so():
    with pytest.raises(SiteError, match="--rent-for-real"):
        site(policy())
    assert set(site(policy(), rents_for_real=True).real) == {"sim"}


def test_a_dry_run_and_an_aws_on_loopback_need_no_leave():
    assert site(policy(Mode.ADVISE)).real["sim"].shown.startswith("AWS us-east-1")
    assert site(policy(endpoint_url="http://127.0.0.1:1")).real["sim"].aws.account.endpoint_url


def test_a_cloud_in_real_time_is_refused_at_another_speed():
    with pytest.raises(SiteError, match="--speed 1"):
        site(policy(Mode.ADVISE), speed=600.0)


def test_user_data_that_cannot_be_made_is_told_with_its_cloud_and_placeholder():
    broken = policy(Mode.ADVISE, user_data={"template": "slurm", "values": {}})
    with pytest.raises(SiteError, match=r"clouds.sim: .*(MUNGE_SECRET|CONF_SERVER)"):
        site(broken)


def test_an_account_knows_what_its_pools_ask_for():
    account = account_of(policy(), "sim")
    assert set(account.shapes) == {"a100-spot", "h100-spot"}
    assert account.gpu_models == ("a100", "h100")
    assert account.shapes["a100-spot"].image_id == "ami-0a1b2c3d"
    assert list(aws_clouds(policy(), SystemClock())) == ["sim"]


def test_the_example_of_an_aws_on_loopback_renders_its_user_data():
    like = load_policy(Path("policies/aws-like.yaml"), at=NOW)
    text = account_of(like, "aws").shapes["a100-spot"].user_data
    assert "elastic_node.py" in text
    assert "slurm.example.org:6817" in text
