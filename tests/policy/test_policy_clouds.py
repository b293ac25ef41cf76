"""Clouds of a policy: what cannot be right is told offline, with its line and what to do."""

import pytest

from tests.builders_policy import complaints_of

GOOD = """
version: 1
clusters:
  main: {kind: slurm}
clouds:
  aws:
    kind: aws
    region: us-east-1
    owner: desk
    controller: one
    subnets: {us-east-1a: subnet-0a1b2c3d, us-east-1b: subnet-0a1b2c3e}
    security_groups: [sg-0a1b2c3d]
    image: ami-0a1b2c3d
    queue_url: https://sqs.us-east-1.amazonaws.com/123456789012/notices
pools:
  site: {place: on-prem, cluster: main, gpu_model: a100, gpus_per_node: 8, nodes: 4}
  burst:
    place: burst
    cluster: main
    cloud: aws
    gpu_model: a100
    gpus_per_node: 8
    max_nodes: 8
    zones: [us-east-1a]
    instance_types: [p4d.24xlarge]
    capacity_types: [spot, on-demand]
classes:
  batch: {wait_target: 15 min}
default_class: batch
"""


def told(text):
    return [str(c) for c in complaints_of(text)]


def test_a_whole_account_is_taken_without_a_word():
    assert told(GOOD) == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("region: us-east-1\n", "region: us-east\n", "'us-east' can't be right"),
        ("image: ami-0a1b2c3d", "image: my-image", "ami-... or resolve:ssm:/a/parameter"),
        ("subnet-0a1b2c3d,", "vpc-0a1b2c3d,", "'vpc-0a1b2c3d' can't be right"),
        ("[sg-0a1b2c3d]", "[default]", "security_groups[0]"),
        ("owner: desk", 'owner: "a<b"', "a tag value"),
        ("us-east-1b: ", "eu-west-1b: ", "zone eu-west-1b is not in region us-east-1"),
        ("sqs.us-east-1", "sqs.eu-west-1", "the queue is in eu-west-1, the machines in us-east-1"),
        ("zones: [us-east-1a]", "zones: [us-east-1c]", "cloud aws names no subnet in us-east-1c"),
        ("[p4d.24xlarge]", "[p4d]", "'p4d' is no instance type"),
        ("    cloud: aws\n", "    cloud: awss\n", "no 'awss' under clouds: it is simulated"),
        ("capacity_types: [spot, on-demand]", "capacity_types: [spot]", "just 1 type(s) times zone(s)"),
        ("    queue_url: https://sqs.us-east-1.amazonaws.com/123456789012/notices\n", "", "no queue_url"),
        ("    kind: aws\n", "    kind: sim\n", "a simulated cloud does not use region"),
        ("    kind: aws\n", "    kind: gcp\n", "clouds.aws.kind"),
        (
            "    image: ami-0a1b2c3d\n",
            "    image: ami-0a1b2c3d\n    endpoint_url: http://example.org\n",
            "no loopback address",
        ),
        (
            "    image: ami-0a1b2c3d\n",
            "    image: ami-0a1b2c3d\n    user_data: {template: slurm, values: {K: AKIAABCDEFGHIJKLMNOP}}\n",
            "looks like a secret",
        ),
    ],
)
def test_what_cannot_be_right_is_told_with_its_place(old, new, words):
    assert old in GOOD
    found = told(GOOD.replace(old, new))
    assert any(words in line for line in found), found
    assert all(":1:1:" not in line for line in found)


def test_every_key_that_is_missing_is_told_at_once():
    text = GOOD
    for key in ("region", "owner", "controller", "security_groups", "image"):
        text = "\n".join(line for line in text.splitlines() if not line.startswith(f"    {key}:"))
    found = told(text)
    for key in ("region", "owner", "controller", "security_groups", "image"):
        assert any(f"needs {key}" in line for line in found), key
