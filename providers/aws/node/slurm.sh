# Join Slurm without a slurm.conf of its own. A munge key is binary: as SecretBinary it is told in base64, as a parameter
# it is kept in base64.
key() {
  secret '@{MUNGE_SECRET}' SecretBinary | base64 -d > /etc/munge/munge.key && [ -s /etc/munge/munge.key ]
}
# Not restarted by itself: -b reports a fresh boot each time, and a second one would cost the jobs that run.
join() {
  systemd-run --unit=elastic-slurmd --collect --service-type=forking -p Delegate=yes -p KillMode=process \
    -p LimitNOFILE=131072 -p LimitMEMLOCK=infinity -p LimitSTACK=infinity \
    "$(command -v slurmd)" -b --conf-server '@{CONF_SERVER}' @{SLURMD_OPTIONS}
}
if again key; then
  chown munge: /etc/munge/munge.key && chmod 0400 /etc/munge/munge.key
  systemctl restart munge
  again join || log "slurmd did not start"
else
  log "the munge key could not be fetched"
fi
