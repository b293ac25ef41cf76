"""A few instance types with their real facts, as EC2 describes them; a test may add one that never existed."""

from typing import Any

# (type, vCPUs, memory MiB, GPUs, GPU name, maker, GPU memory MiB, local NVMe GB, network) by AWS's documentation.
ROWS = (
    ("g4dn.12xlarge", 48, 196_608, 4, "T4", "NVIDIA", 16_384, 900, "50 Gigabit"),
    ("g5.12xlarge", 48, 196_608, 4, "A10G", "NVIDIA", 24_576, 3_800, "40 Gigabit"),
    ("g5.48xlarge", 192, 786_432, 8, "A10G", "NVIDIA", 24_576, 7_600, "100 Gigabit"),
    ("g6.12xlarge", 48, 196_608, 4, "L4", "NVIDIA", 22_888, 3_760, "40 Gigabit"),
    ("g6e.12xlarge", 48, 393_216, 4, "L40S", "NVIDIA", 45_776, 3_800, "100 Gigabit"),
    ("p4d.24xlarge", 96, 1_179_648, 8, "A100", "NVIDIA", 40_960, 8_000, "4x 100 Gigabit"),
    ("p4de.24xlarge", 96, 1_179_648, 8, "A100", "NVIDIA", 81_920, 8_000, "4x 100 Gigabit"),
    ("p5.48xlarge", 192, 2_097_152, 8, "H100", "NVIDIA", 81_920, 30_400, "3200 Gigabit"),
)


def described(
    name: str, cpus: int, memory_mib: int, gpus: int, gpu: str, maker: str, gpu_mib: int, nvme_gb: int, network: str
) -> dict[str, Any]:
    """One entry of `describe_instance_types`."""
    return {
        "InstanceType": name,
        "CurrentGeneration": True,
        "SupportedUsageClasses": ["on-demand", "spot"],
        "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
        "VCpuInfo": {"DefaultVCpus": cpus},
        "MemoryInfo": {"SizeInMiB": memory_mib},
        "GpuInfo": {
            "Gpus": [{"Name": gpu, "Manufacturer": maker, "Count": gpus, "MemoryInfo": {"SizeInMiB": gpu_mib}}],
            "TotalGpuMemoryInMiB": gpus * gpu_mib,
        },
        "InstanceStorageSupported": nvme_gb > 0,
        "InstanceStorageInfo": {"TotalSizeInGB": nvme_gb, "NvmeSupport": "required"},
        "NetworkInfo": {"NetworkPerformance": network, "NetworkCards": [{"BaselineBandwidthInGbps": 100.0}]},
    }
