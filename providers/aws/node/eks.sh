# Join EKS: the certificate and address of the cluster are no secrets; the node's role lets it in.
cat > /run/node.yaml <<'NODE'
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: @{EKS_CLUSTER}
    apiServerEndpoint: @{API_SERVER}
    certificateAuthority: @{CERTIFICATE_AUTHORITY}
    cidr: @{SERVICE_CIDR}
  kubelet:
    flags:
      - --node-labels=elastic/pool=@{POOL}
NODE
again nodeadm init -c file:///run/node.yaml || log "nodeadm did not join"
