#!/bin/bash
# First start of a rented node. The agent goes first: the dead-man switch must hold even if joining fails.
set -u
log() { echo "elastic-start: $*"; logger -t elastic-start -- "$*" 2>/dev/null || true; }

install -d -m 0755 /usr/local/sbin
base64 -d <<'AGENT' | gunzip > /usr/local/sbin/elastic_node.py
@{AGENT_PACKED}
AGENT
cat > /etc/systemd/system/elastic-node.service <<'UNIT'
@{UNIT}
UNIT
cat > /etc/elastic-node.json <<'SETTINGS'
@{SETTINGS}
SETTINGS
systemctl daemon-reload
systemctl enable --now elastic-node.service || log "the agent did not start"

# Local NVMe as cache: one device as it is, several as a stripe, none: a plain folder.
mapfile -t disks < <(find /dev/disk/by-id -name '*Amazon_EC2_NVMe_Instance_Storage*' ! -name '*-part*' -exec readlink -f {} + 2>/dev/null | sort -u)
mkdir -p /cache
if [ "${#disks[@]}" -gt 1 ]; then
  mdadm --create /dev/md0 --run --level=0 --raid-devices="${#disks[@]}" "${disks[@]}" && disk=/dev/md0
else
  disk="${disks[0]:-}"
fi
if [ -n "${disk:-}" ]; then
  { mkfs.xfs -f "$disk" || mkfs.ext4 -F "$disk"; } && mount -o noatime "$disk" /cache && log "cache on $disk"
else
  log "no local NVMe: /cache is a folder of the root volume"
fi

# A secret by its name, fetched with the node's own role; never part of this text.
secret() { aws secretsmanager get-secret-value --region '@{REGION}' --secret-id "$1" --query "$2" --output text; }
again() { for _ in 1 2 3 4 5 6 7 8 9 10; do "$@" && return 0; sleep 10; done; return 1; }

@{JOIN}
