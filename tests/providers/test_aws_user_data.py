"""The user data of a pool: what is in it, what is refused, and that nothing secret and nothing per launch is."""

import ast
import email
import gzip
import json
import re
from base64 import b64decode
from importlib import resources
from io import StringIO
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from providers.aws.account import NodeShape
from providers.aws.templates import USER_DATA_LIMIT_BYTES, template_content
from providers.aws.user_data import BUNDLED, LIMIT_BYTES, render
from tests.contract.stand_aws import an_account

SITE = {
    "POOL": "a100-burst", "CLUSTER": "main", "OWNER": "desk", "CONTROLLER": "c1", "REGION": "eu-west-1",
    "LEASE_S": "86400",
}  # fmt: skip
OWN = {
    "slurm": {"CONF_SERVER": "slurm.example.org:6817", "MUNGE_SECRET": "elastic/nodes/munge"},
    "kubernetes": {"JOIN_SECRET": "ssm:/elastic/nodes/join"},
    "eks": {
        "EKS_CLUSTER": "main", "API_SERVER": "https://example.eks.amazonaws.com", "SERVICE_CIDR": "10.100.0.0/16",
        "CERTIFICATE_AUTHORITY": "LS0tLS1CRUdJTg+/=" * 90,
    },
}  # fmt: skip
# What key material looks like; a certificate is public.
SECRET = re.compile(
    r"AKIA|ASIA|aws_secret|PRIVATE KEY|password|\b[a-z0-9]{6}\.[a-z0-9]{16}\b|sha256:[0-9a-f]{64}", re.I
)


def text_of(template, **more):
    return render(template, site=SITE, own={**OWN[template], **more})


def settings_in(text):
    return json.loads(re.search(r"<<'SETTINGS'\n(.*?)\nSETTINGS\n", text, re.DOTALL)[1])


def agent_in(text):
    return gzip.decompress(b64decode(re.search(r"<<'AGENT'.*?\n(.*?)\nAGENT\n", text, re.DOTALL)[1])).decode()


def source_of_the_agent():
    return bundled("elastic_node.py")


def bundled(name):
    return resources.files("providers.aws").joinpath("node", name).read_text()


@pytest.mark.parametrize("template", BUNDLED)
def test_every_bundled_text_carries_the_agent_its_settings_and_its_start_before_it_joins(template):
    text = text_of(template, HEARTBEAT_FILE="/shared/heartbeat")
    assert agent_in(text) == source_of_the_agent()
    assert settings_in(text)["heartbeat_file"] == "/shared/heartbeat"
    assert settings_in(text)["lease_s"] == 86_400
    start = text.index("systemctl enable --now elastic-node.service")
    assert start < text.index("/dev/disk/by-id") < text.index("secretsmanager get-secret-value")
    assert "@{" not in text


@pytest.mark.parametrize("template", BUNDLED)
def test_no_bundled_text_holds_a_secret_or_anything_that_differs_between_two_launches(template):
    text = text_of(template)
    assert SECRET.findall(text.replace(agent_in_packed(text), "")) == []
    assert SECRET.findall(agent_in(text)) == []
    assert text == text_of(template)
    assert len(text.encode()) < LIMIT_BYTES * 0.85  # room for what a site adds


def agent_in_packed(text):
    return re.search(r"<<'AGENT'.*?\n(.*?)\nAGENT\n", text, re.DOTALL)[1]


def test_the_search_for_secrets_finds_some():
    assert SECRET.findall("AKIAABCDEFGHIJKLMNOP")
    assert SECRET.findall("kubeadm join 10.0.0.1:6443 --token abcdef.0123456789abcdef")
    assert SECRET.findall("-----BEGIN RSA PRIVATE KEY-----")


@pytest.mark.parametrize("template", BUNDLED)
def test_the_launch_template_takes_it_and_lets_the_agent_read_its_lease(template):
    assert LIMIT_BYTES == USER_DATA_LIMIT_BYTES
    content = template_content(an_account(), NodeShape(image_id="ami-1", user_data=text_of(template)))
    assert b64decode(content["UserData"]).decode() == text_of(template)
    assert content["MetadataOptions"]["InstanceMetadataTags"] == "enabled"
    assert content["InstanceInitiatedShutdownBehavior"] == "terminate"


@pytest.mark.parametrize("template", BUNDLED)
def test_each_cluster_has_commands_that_see_jobs_and_drain_and_a_policy_may_replace_them(template):
    known = settings_in(text_of(template))
    assert known["jobs_command"]
    assert known["drain_command"]
    other = settings_in(text_of(template, JOBS_COMMAND="squeue -w 'x'", WARN_COMMAND="", REBALANCE_COMMAND="true"))
    assert (other["jobs_command"], other["warn_command"], other["rebalance_command"]) == ("squeue -w 'x'", "", "true")
    assert other["drain_command"] == known["drain_command"]
    assert set(other) <= set(defaults())


def defaults():
    agent = ast.parse(source_of_the_agent())
    table = next(n.value for n in agent.body if isinstance(n, ast.Assign) and n.targets[0].id == "SETTINGS")
    return ast.literal_eval(table)


def test_the_readme_names_every_setting_with_its_default_and_every_value():
    readme = (Path(__file__).parents[2] / "deploy" / "node" / "README.md").read_text()
    told = {key: json.loads(value) for key, value in re.findall(r"^\| `([a-z_]+)` \| `([^`]*)` \|", readme, re.M)}
    assert told == defaults()
    asked = {name for file in BUNDLED.values() for name in re.findall(r"@{(\w+)}", bundled(file))}
    assert {name for name in asked - {"START"} if f"`{name}`" not in readme and f"@{{{name}}}" not in readme} == set()


def test_the_text_for_eks_is_a_script_beside_a_node_config():
    message = email.message_from_string(text_of("eks"))
    script, config = message.get_payload()
    assert [part.get_content_type() for part in (script, config)] == ["text/x-shellscript", "application/node.eks.aws"]
    assert script.get_payload().startswith("#!/bin/bash\n")
    node = YAML(typ="safe", pure=True).load(StringIO(config.get_payload()))
    assert node["kind"] == "NodeConfig"
    assert node["spec"]["cluster"]["certificateAuthority"] == OWN["eks"]["CERTIFICATE_AUTHORITY"]
    assert node["spec"]["kubelet"]["flags"] == ["--node-labels=elastic/pool=a100-burst"]


def test_the_agent_is_python_of_3_6_and_needs_nothing_but_its_library():
    tree = ast.parse(source_of_the_agent(), feature_version=(3, 6))
    imported = {a.name.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    imported |= {n.module.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module}
    since_3_6 = {
        "argparse", "contextlib", "datetime", "email", "http", "json", "os", "re", "shlex", "signal", "subprocess",
        "threading", "time", "traceback", "urllib",
    }  # fmt: skip
    assert imported <= since_3_6
    called = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func).startswith("subprocess.")]
    assert called
    assert not {k.arg for n in called for k in n.keywords} & {"text", "capture_output"}  # since 3.7
    assert not any(isinstance(n, ast.JoinedStr | ast.NamedExpr) for n in ast.walk(tree))


# Texts of one's own


def test_a_text_of_ones_own_has_its_values_and_may_take_the_agent_with_it():
    own = {"NFS": "10.0.0.9:/home", "HEARTBEAT_FILE": "/home/heartbeat", "JOBS_COMMAND": "pgrep -a worker || true"}
    text = render("@{START}\nmount @{NFS} /home # of @{POOL}\n", site=SITE, own=own)
    assert text.endswith("mount 10.0.0.9:/home /home # of a100-burst\n")
    assert agent_in(text) == source_of_the_agent()
    assert settings_in(text)["jobs_command"] == "pgrep -a worker || true"
    assert "drain_command" not in settings_in(text)  # nobody knows how to drain it


def test_a_shells_own_variables_are_left_alone():
    text = "#!/bin/sh\necho ${HOME} $POOL @{POOL}\n"
    assert render(text, site=SITE, own={}) == "#!/bin/sh\necho ${HOME} $POOL a100-burst\n"


# What is refused


def test_a_placeholder_without_a_value_is_named_with_its_template_and_line():
    with pytest.raises(ValueError, match=r"template slurm, line \d+: no value for CONF_SERVER; give it under `values`"):
        render("slurm", site=SITE, own={"MUNGE_SECRET": "m"})
    with pytest.raises(ValueError, match=r"template of the policy, line 3: no value for WHAT"):
        render("#!/bin/sh\n\necho @{WHAT}\n", site=SITE, own={})


def test_a_value_that_nothing_uses_is_named():
    with pytest.raises(ValueError, match="template slurm has no placeholder for JOIN_SECRET, MUNG_SECRET"):
        text_of("slurm", MUNG_SECRET="m", JOIN_SECRET="j")
    with pytest.raises(ValueError, match="template of the policy has no placeholder for HEARTBEAT_FILE"):
        render("#!/bin/sh\n", site=SITE, own={"HEARTBEAT_FILE": "/h"})


def test_a_template_that_does_not_exist_is_named_with_those_that_do():
    with pytest.raises(ValueError, match="no user data template 'slrum': use slurm, kubernetes, eks, or the path"):
        render("slrum", site=SITE, own={})


@pytest.mark.parametrize("value", ["a'b", "$(reboot)", "a`b`", 'a"b', "a\nb", "a;b", "a\\b", "a|b", "${X}"])
def test_a_value_that_a_shell_would_run_is_refused(value):
    with pytest.raises(ValueError, match=r"template slurm: CONF_SERVER .*only letters"):
        text_of("slurm", CONF_SERVER=value)


def test_options_of_slurmd_are_words_whatever_is_in_them():
    text = text_of("slurm", SLURMD_OPTIONS="-Z --conf 'Feature=burst Gres=gpu:a100:8' $(reboot)")
    assert "'slurm.example.org:6817' -Z --conf 'Feature=burst Gres=gpu:a100:8' '$(reboot)'\n" in text
    with pytest.raises(ValueError, match=r"SLURMD_OPTIONS .*No closing quotation"):
        text_of("slurm", SLURMD_OPTIONS="--conf 'Feature")


def test_a_text_over_the_limit_is_refused_by_how_much():
    at_limit = "#\n" + "x" * (LIMIT_BYTES - 2)
    assert render(at_limit, site=SITE, own={}) == at_limit
    with pytest.raises(ValueError, match="3 bytes over EC2's 16384: shorten it"):
        render(at_limit + "xxx", site=SITE, own={})
    with pytest.raises(ValueError, match="bytes over EC2's 16384"):
        text_of("eks", CERTIFICATE_AUTHORITY="A" * LIMIT_BYTES)
