"""The first start as a real shell runs it, its absolute paths moved into a folder and its system programs replaced by
ones that only say how they were called."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from providers.aws.user_data import render
from tests.real.node import programs

SITE = {
    "POOL": "a100-burst", "CLUSTER": "main", "OWNER": "desk", "CONTROLLER": "c1", "REGION": "eu-west-1",
    "LEASE_S": "86400",
}  # fmt: skip
OWN = {
    "slurm": {"CONF_SERVER": "slurm.example.org:6817", "MUNGE_SECRET": "elastic/nodes/munge"},
    "kubernetes": {"JOIN_SECRET": "ssm:/elastic/nodes/join"},
}
SYSTEM = (
    "systemctl", "shutdown", "logger", "mdadm", "mkfs.xfs", "mkfs.ext4", "mount", "chown", "systemd-run", "slurmd",
    "sleep", "kubeadm", "cloud-init", "aws", "squeue", "crictl",
)  # fmt: skip
RUN_LIMIT_S = 60
NVME = "nvme-Amazon_EC2_NVMe_Instance_Storage_AWS"
KEY = "munge-key-of-the-test"  # as Secrets Manager tells it: in base64
SECRET = "aws) echo bXVuZ2Uta2V5LW9mLXRoZS10ZXN0 ;;"


def text_of(template):
    return render(template, site=SITE, own={**OWN[template], "HEARTBEAT_FILE": "/shared/heartbeat"})


class Machine:
    """A folder that stands for a machine's file system."""

    def __init__(self, folder: Path, *, disks: int = 0) -> None:
        self.root, self.calls_file, self.programs = folder / "root", folder / "calls", folder / "programs"
        for place in ("etc/systemd/system", "etc/munge", "etc/default", "run", "usr/local/sbin", "dev/disk/by-id"):
            (self.root / place).mkdir(parents=True)
        for number in range(disks):
            (self.root / f"dev/nvme{number + 1}n1").touch()
            for name in (f"{NVME}{number}", f"{NVME}{number}-ns-1"):  # two names a disk, as udev makes them
                (self.root / "dev/disk/by-id" / name).symlink_to(self.root / f"dev/nvme{number + 1}n1")
        (self.root / "dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol1").symlink_to(self.root / "dev/nvme0n1")
        self.programs.mkdir()
        for name in SYSTEM:
            self.program(name, f'echo "{name} $*" >> {self.calls_file}\ncase {name} in {SECRET} esac\n')

    def program(self, name: str, body: str) -> None:
        (self.programs / name).write_text(f"#!/bin/sh\n{body}\n")
        (self.programs / name).chmod(0o755)

    def fails(self, name: str) -> None:
        self.program(name, f'echo "{name} $*" >> {self.calls_file}\nexit 1')

    def runs(self, text: str) -> str:
        """What the script said; its paths lead into the folder."""
        for place in ("/etc/", "/run/", "/usr/local/sbin/", "/dev/disk/"):
            text = text.replace(f" {place}", f" {self.root}{place}")
        text = text.replace("mkdir -p /usr/local/sbin", "true").replace("/cache", f"{self.root}/cache")
        text = text.replace("export PATH=", f'export PATH="{self.programs}:$PATH" OLD_PATH=')
        outside = re.findall(r">\s*(/(?!dev/null)\S+)", text.replace(str(self.root), "@"))
        assert outside == [], "this would be written on the machine that runs the tests"
        done = subprocess.run(
            ["bash", "-c", text], capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False, env=os.environ
        )
        return done.stdout + done.stderr

    def calls(self, name: str = "") -> list[str]:
        lines = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        return [line.replace(str(self.root), "") for line in lines if line.split()[0] == (name or line.split()[0])]

    def text(self, path: str) -> str:
        return (self.root / path).read_text()


def test_a_slurm_node_starts_its_agent_fetches_its_key_and_joins(tmp_path):
    machine = Machine(tmp_path)
    said = machine.runs(text_of("slurm"))
    agent = machine.root / "usr/local/sbin/elastic_node.py"
    source = Path(programs.__file__).parents[3] / "providers/aws/node/elastic_node.py"
    assert agent.read_bytes() == source.read_bytes()
    assert json.loads(machine.text("etc/elastic-node.json"))["heartbeat_file"] == "/shared/heartbeat"
    assert machine.text("etc/systemd/system/elastic-node.service").endswith("WantedBy=multi-user.target\n")
    assert machine.text("etc/munge/munge.key") == KEY
    assert (machine.root / "etc/munge/munge.key").stat().st_mode & 0o777 == 0o400
    order = [call.split()[0] for call in machine.calls() if not call.startswith("logger")]
    assert order == ["systemctl", "systemctl", "aws", "chown", "systemctl", "systemd-run"]
    assert machine.calls("aws") == [
        "aws secretsmanager get-secret-value --region eu-west-1 --secret-id elastic/nodes/munge"
        " --query SecretBinary --output text"
    ]
    assert machine.calls("systemd-run")[0].endswith("slurmd -b --conf-server slurm.example.org:6817")
    assert "no local NVMe: /" in said


def test_joining_that_fails_leaves_the_agent_running_and_is_told(tmp_path):
    machine = Machine(tmp_path)
    machine.fails("aws")
    said = machine.runs(text_of("slurm"))
    assert machine.calls("systemctl") == ["systemctl daemon-reload", "systemctl enable --now elastic-node.service"]
    assert (len(machine.calls("aws")), len(machine.calls("sleep"))) == (10, 10)
    assert machine.calls("systemd-run") == []
    assert "the munge key could not be fetched" in said


def test_an_empty_secret_is_no_key(tmp_path):
    machine = Machine(tmp_path)
    machine.program("aws", "true")
    assert "the munge key could not be fetched" in machine.runs(text_of("slurm"))


def test_an_agent_that_does_not_start_is_replaced_by_a_power_off_at_the_end_of_the_lease(tmp_path):
    machine = Machine(tmp_path)
    machine.fails("systemctl")
    said = machine.runs(text_of("slurm"))
    assert machine.calls("shutdown") == ["shutdown -P +1440"]
    assert "the agent did not start" in said


def test_a_kubernetes_node_joins_by_the_line_of_its_secret_which_is_not_kept(tmp_path):
    machine = Machine(tmp_path)
    machine.program("cloud-init", 'case "$2" in instance_id) echo i-0123 ;; *) echo eu-west-1a ;; esac')
    machine.program("aws", 'echo "aws $*" >> ' + str(machine.calls_file) + '\necho "kubeadm join 10.0.0.1:6443"')
    machine.runs(text_of("kubernetes"))
    assert machine.calls("kubeadm") == ["kubeadm join 10.0.0.1:6443"]
    assert "ssm get-parameter" in machine.calls("aws")[0]
    assert "--name /elastic/nodes/join" in machine.calls("aws")[0]
    assert machine.text("etc/default/kubelet") == (
        "KUBELET_EXTRA_ARGS=--node-labels=elastic/pool=a100-burst --provider-id=aws:///eu-west-1a/i-0123\n"
    )
    assert not (machine.root / "run/elastic-join").exists()


def test_a_join_that_fails_is_reset_before_the_next_try(tmp_path):
    machine = Machine(tmp_path)
    machine.program("aws", "echo kubeadm join")
    machine.fails("kubeadm")
    said = machine.runs(text_of("kubernetes"))
    assert machine.calls("kubeadm")[:3] == ["kubeadm join", "kubeadm reset --force", "kubeadm join"]
    assert "kubeadm did not join" in said
    assert not (machine.root / "run/elastic-join").exists()


# The cache


@pytest.mark.parametrize(
    ("disks", "made", "mounted"),
    [
        (0, [], []),
        (1, ["mkfs.xfs -f /dev/nvme1n1"], ["mount -o noatime /dev/nvme1n1 /cache"]),
        (
            2,
            [
                "mdadm --create /dev/md0 --run --level=0 --raid-devices=2 /dev/nvme1n1 /dev/nvme2n1",
                "mkfs.xfs -f /dev/md0",
            ],
            ["mount -o noatime /dev/md0 /cache"],
        ),
    ],
)
def test_local_nvme_becomes_the_cache_several_disks_as_one(tmp_path, disks, made, mounted):
    machine = Machine(tmp_path, disks=disks)
    machine.runs(text_of("slurm"))
    assert machine.calls("mdadm") + machine.calls("mkfs.xfs") == made
    assert machine.calls("mount") == mounted
    assert (machine.root / "cache").is_dir()


def test_without_mdadm_the_first_disk_is_the_cache_and_without_xfs_it_is_ext4(tmp_path):
    machine = Machine(tmp_path, disks=2)
    machine.fails("mdadm")
    machine.fails("mkfs.xfs")
    said = machine.runs(text_of("slurm"))
    assert machine.calls("mkfs.ext4") == ["mkfs.ext4 -F /dev/nvme1n1"]
    assert machine.calls("mount") == ["mount -o noatime /dev/nvme1n1 /cache"]
    assert "no stripe over" in said


def test_a_disk_that_the_image_uses_already_is_left_alone_and_joining_goes_on(tmp_path):
    machine = Machine(tmp_path, disks=1)
    machine.fails("mkfs.xfs")
    machine.fails("mkfs.ext4")
    said = machine.runs(text_of("slurm"))
    assert "could not be used" in said
    assert machine.calls("mount") == []
    assert len(machine.calls("systemd-run")) == 1


# The commands of the settings


def jobs_command(machine, template):
    machine.runs(text_of(template))
    return json.loads(machine.text("etc/elastic-node.json"))["jobs_command"]


def answer_of(machine, command):
    done = subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False,
        env={**os.environ, "PATH": f"{machine.programs}:{os.environ['PATH']}"},
    )  # fmt: skip
    return done.returncode, done.stdout.split()


def test_a_slurm_job_is_seen_by_its_process_without_any_answer_of_slurmctld(tmp_path):
    if shutil.which("pgrep") is None:
        pytest.skip("no pgrep: procps is not installed")
    machine = Machine(tmp_path)
    command = jobs_command(machine, "slurm")
    machine.fails("squeue")
    before = answer_of(machine, command)
    assert before[0] == 0
    job = subprocess.Popen(["slurmstepd: [987654321.batch]", "60"], executable=shutil.which("sleep"))
    try:
        code, words = answer_of(machine, command)
        assert code == 0
        assert "[987654321.batch]" in words
        assert "[987654321.batch]" not in before[1]
    finally:
        job.kill()
        job.wait()
    machine.program("squeue", "echo 55")  # a prolog runs: no process of the job yet
    assert "55" in answer_of(machine, command)[1]
    machine.program("pgrep", "exit 3")
    assert answer_of(machine, command)[0] != 0  # what cannot be looked up is unknown, not idle


def pod(name, labels=None, **annotations):
    return {"metadata": {"name": name}, "labels": labels, "annotations": annotations}


@pytest.mark.parametrize("pods", [None, [], [pod("node-exporter", {"pod-template-generation": "1"})]])
def test_a_kubernetes_node_with_pods_of_daemon_sets_alone_is_idle(tmp_path, pods):
    static = {**pod("kube-proxy"), "annotations": {"kubernetes.io/config.source": "file"}}
    machine = Machine(tmp_path)
    command = jobs_command(machine, "kubernetes")
    (tmp_path / "pods.json").write_text(json.dumps({"items": pods and [*pods, static]}))
    machine.program("crictl", f"cat {tmp_path}/pods.json")
    assert answer_of(machine, command) == (0, [])


def test_a_kubernetes_job_is_seen_in_whatever_namespace_and_no_answer_is_unknown(tmp_path):
    machine = Machine(tmp_path)
    command = jobs_command(machine, "kubernetes")
    (tmp_path / "pods.json").write_text(json.dumps({"items": [pod("train-0", {"job-name": "train"}), pod("bare")]}))
    machine.program("crictl", f"cat {tmp_path}/pods.json")
    assert answer_of(machine, command) == (0, ["train-0", "bare"])
    machine.program("crictl", "exit 1")
    assert answer_of(machine, command)[0] != 0


# The shell itself


@pytest.mark.parametrize("template", OWN)
def test_shellcheck_finds_nothing_in_a_first_start(tmp_path, template):
    try:
        program = programs.shellcheck()
    except programs.Missing as missing:
        pytest.skip(f"no shellcheck: {missing}")
    (tmp_path / "start").write_text(text_of(template))
    done = subprocess.run(
        [program, "--shell=bash", str(tmp_path / "start")],
        capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False,
    )  # fmt: skip
    assert done.stdout + done.stderr == ""
    assert done.returncode == 0
