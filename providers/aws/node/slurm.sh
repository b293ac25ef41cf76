# Join Slurm: the munge key, then slurmd in configless mode. Munge keys are binary: kept as SecretBinary, told in base64.
key() { secret '@{MUNGE_SECRET}' SecretBinary | base64 -d > /etc/munge/munge.key; }
again key || log "the munge key could not be fetched"
chown munge: /etc/munge/munge.key && chmod 0400 /etc/munge/munge.key
systemctl restart munge
again slurmd -b --conf-server '@{CONF_SERVER}' || log "slurmd did not start"
