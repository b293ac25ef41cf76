# Who may talk to whom. Nobody outside the site and the nodes themselves reaches a node; nobody reaches the controller.
# DNS and time come from addresses inside the VPC that security groups do not filter.

locals {
  # The border: what carries this tag is Terraform's, and the controller never touches it.
  tags = merge(var.tags, { "elastic:made-by" = "terraform", "elastic:owner" = var.owner })

  from_site = merge([
    for cidr in var.site_cidrs : { for name, port in var.node_ports : "${name} ${cidr}" => { cidr = cidr, port = port } }
  ]...)
}

resource "aws_security_group" "nodes" {
  name        = "${var.name}-nodes"
  description = "Burst nodes"
  vpc_id      = var.vpc_id
  tags        = merge(local.tags, { Name = "${var.name}-nodes" })
}

# A gang's nodes talk on any port; EFA wants exactly this pair of rules.
resource "aws_vpc_security_group_ingress_rule" "nodes_from_nodes" {
  security_group_id            = aws_security_group.nodes.id
  description                  = "Between nodes: MPI, NCCL, EFA, the cache"
  referenced_security_group_id = aws_security_group.nodes.id
  ip_protocol                  = "-1"
  tags                         = local.tags
}

resource "aws_vpc_security_group_egress_rule" "nodes_to_nodes" {
  security_group_id            = aws_security_group.nodes.id
  description                  = "Between nodes: MPI, NCCL, EFA, the cache"
  referenced_security_group_id = aws_security_group.nodes.id
  ip_protocol                  = "-1"
  tags                         = local.tags
}

resource "aws_vpc_security_group_ingress_rule" "nodes_from_site" {
  for_each          = local.from_site
  security_group_id = aws_security_group.nodes.id
  description       = "Scheduler and submit hosts: ${each.key}"
  cidr_ipv4         = each.value.cidr
  ip_protocol       = "tcp"
  from_port         = each.value.port.from
  to_port           = each.value.port.to
  tags              = local.tags
}

resource "aws_vpc_security_group_egress_rule" "nodes_to_site" {
  for_each          = toset(var.site_cidrs)
  security_group_id = aws_security_group.nodes.id
  description       = "Scheduler, home directories, licences at the site"
  cidr_ipv4         = each.key
  ip_protocol       = "-1"
  tags              = local.tags
}

resource "aws_vpc_security_group_egress_rule" "nodes_https" {
  security_group_id = aws_security_group.nodes.id
  description       = "AWS interfaces and package mirrors"
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
  tags              = local.tags
}

# No way in: its page listens on loopback only; people come over Session Manager.
resource "aws_security_group" "controller" {
  name        = "${var.name}-controller"
  description = "The elastic controller's host"
  vpc_id      = var.vpc_id
  tags        = merge(local.tags, { Name = "${var.name}-controller" })
}

resource "aws_vpc_security_group_egress_rule" "controller_https" {
  security_group_id = aws_security_group.controller.id
  description       = "AWS interfaces"
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
  tags              = local.tags
}

resource "aws_vpc_security_group_egress_rule" "controller_to_site" {
  for_each          = toset(var.site_cidrs)
  security_group_id = aws_security_group.controller.id
  description       = "The scheduler at the site"
  cidr_ipv4         = each.key
  ip_protocol       = "tcp"
  from_port         = 1
  to_port           = 65535
  tags              = local.tags
}
