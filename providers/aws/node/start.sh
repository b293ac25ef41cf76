#!/bin/bash
# First start of a rented node. The agent goes first: the dead-man switch must hold even if joining fails.
set -u -o pipefail
export PATH="/opt/slurm/bin:/opt/slurm/sbin:/usr/local/sbin:/usr/local/bin:$PATH"
log() { echo "elastic-start: $*"; logger -t elastic-start -- "$*" 2>/dev/null || true; }

mkdir -p /usr/local/sbin
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
if ! systemctl enable --now elastic-node.service; then
  log "the agent did not start: this node powers itself off at the end of its first lease"
  shutdown -P "+$((@{LEASE_S} / 60))"
fi

# Local NVMe as cache: one device as it is, several as a stripe, none: a plain folder.
mapfile -t disks < <(find /dev/disk/by-id -name '*Amazon_EC2_NVMe_Instance_Storage*' ! -name '*-part*' -exec readlink -f {} + 2>/dev/null | sort -u)
mkdir -p /cache
disk="${disks[0]:-}"
if [ "${#disks[@]}" -gt 1 ]; then
  if mdadm --create /dev/md0 --run --level=0 --raid-devices="${#disks[@]}" "${disks[@]}"; then
    disk=/dev/md0
  else
    log "no stripe over ${disks[*]}: only $disk is used"
  fi
fi
if [ -z "$disk" ]; then
  log "no local NVMe: /cache is a folder of the root volume"
elif { mkfs.xfs -f "$disk" || mkfs.ext4 -F "$disk"; } && mount -o noatime "$disk" /cache; then
  log "cache on $disk"
else
  log "$disk could not be used: /cache is a folder of the root volume"
fi

# A secret, fetched with the node's own role, never part of this text: `ssm:NAME` is a parameter, another name is of
# Secrets Manager. Only root reads what is written from here on.
umask 077
secret() {
  case "$1" in
    ssm:*) aws ssm get-parameter --region '@{REGION}' --with-decryption --name "${1#ssm:}" --query Parameter.Value --output text ;;
    *) aws secretsmanager get-secret-value --region '@{REGION}' --secret-id "$1" --query "$2" --output text ;;
  esac
}
again() { for _ in 1 2 3 4 5 6 7 8 9 10; do "$@" && return 0; sleep 10; done; return 1; }

@{JOIN}
