# Join Kubernetes: a secret holds the line that `kubeadm token create --print-join-command` prints.
id="$(cloud-init query instance_id)" zone="$(cloud-init query availability_zone)"
for place in /etc/default /etc/sysconfig; do # Debian's and Red Hat's kubelet look here
  [ -d "$place" ] && cat > "$place/kubelet" <<KUBELET
KUBELET_EXTRA_ARGS=--node-labels=elastic/pool=@{POOL} --provider-id=aws:///$zone/$id
KUBELET
done
join() {
  secret '@{JOIN_SECRET}' SecretString > /run/elastic-join && bash /run/elastic-join && return 0
  kubeadm reset --force
  return 1
}
again join || log "kubeadm did not join"
rm -f /run/elastic-join
