# A VPC with one private subnet a zone, or an existing one passed through. Nodes never have public addresses.

data "aws_region" "current" {}

locals {
  # The border: what carries this tag is Terraform's, and the controller never touches it.
  tags = merge(var.tags, { "elastic:made-by" = "terraform", "elastic:owner" = var.owner })

  zones     = var.existing_vpc_id == null ? var.zones : []
  one       = var.existing_vpc_id == null ? 1 : 0
  nat_zones = var.nat == "per-zone" ? local.zones : var.nat == "single" ? slice(local.zones, 0, min(1, length(local.zones))) : []
  has_nat   = length(local.nat_zones) > 0
}

resource "aws_vpc" "this" {
  count                = local.one
  cidr_block           = var.cidr
  enable_dns_support   = true
  enable_dns_hostnames = true
  tags                 = merge(local.tags, { Name = var.name })
}

# Taken over without a rule: nothing that forgets to name a group is reachable.
resource "aws_default_security_group" "closed" {
  count  = local.one
  vpc_id = aws_vpc.this[0].id
  tags   = merge(local.tags, { Name = "${var.name}-closed" })
}

resource "aws_subnet" "nodes" {
  for_each                = toset(local.zones)
  vpc_id                  = aws_vpc.this[0].id
  availability_zone       = each.key
  cidr_block              = cidrsubnet(var.cidr, 4, index(var.zones, each.key))
  map_public_ip_on_launch = false
  tags                    = merge(local.tags, { Name = "${var.name}-nodes-${each.key}" })
}

resource "aws_route_table" "nodes" {
  for_each = toset(local.zones)
  vpc_id   = aws_vpc.this[0].id
  tags     = merge(local.tags, { Name = "${var.name}-nodes-${each.key}" })
}

resource "aws_route_table_association" "nodes" {
  for_each       = toset(local.zones)
  subnet_id      = aws_subnet.nodes[each.key].id
  route_table_id = aws_route_table.nodes[each.key].id
}

# Free, and keeps the traffic of the cache bucket off the NAT gateway, which bills every GB.
resource "aws_vpc_endpoint" "s3" {
  count             = local.one
  vpc_id            = aws_vpc.this[0].id
  service_name      = "com.amazonaws.${data.aws_region.current.id}.s3"
  vpc_endpoint_type = "Gateway"
  route_table_ids   = [for table in aws_route_table.nodes : table.id]
  tags              = merge(local.tags, { Name = "${var.name}-s3" })
}

# The way to the site.

resource "aws_vpn_gateway_attachment" "site" {
  count          = var.vpn_gateway_id == null ? 0 : local.one
  vpc_id         = aws_vpc.this[0].id
  vpn_gateway_id = var.vpn_gateway_id
}

resource "aws_vpn_gateway_route_propagation" "site" {
  for_each       = toset(var.vpn_gateway_id == null ? [] : local.zones)
  vpn_gateway_id = aws_vpn_gateway_attachment.site[0].vpn_gateway_id
  route_table_id = aws_route_table.nodes[each.key].id
}

# The way to the internet, outward only.

resource "aws_internet_gateway" "this" {
  count  = local.has_nat ? 1 : 0
  vpc_id = aws_vpc.this[0].id
  tags   = merge(local.tags, { Name = var.name })
}

resource "aws_subnet" "nat" {
  for_each                = toset(local.nat_zones)
  vpc_id                  = aws_vpc.this[0].id
  availability_zone       = each.key
  cidr_block              = cidrsubnet(var.cidr, 8, 255 - index(var.zones, each.key))
  map_public_ip_on_launch = false
  tags                    = merge(local.tags, { Name = "${var.name}-nat-${each.key}" })
}

resource "aws_route_table" "nat" {
  count  = local.has_nat ? 1 : 0
  vpc_id = aws_vpc.this[0].id
  tags   = merge(local.tags, { Name = "${var.name}-nat" })
}

resource "aws_route" "nat_to_internet" {
  count                  = local.has_nat ? 1 : 0
  route_table_id         = aws_route_table.nat[0].id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway.this[0].id
}

resource "aws_route_table_association" "nat" {
  for_each       = toset(local.nat_zones)
  subnet_id      = aws_subnet.nat[each.key].id
  route_table_id = aws_route_table.nat[0].id
}

resource "aws_eip" "nat" {
  for_each = toset(local.nat_zones)
  domain   = "vpc"
  tags     = merge(local.tags, { Name = "${var.name}-nat-${each.key}" })
}

resource "aws_nat_gateway" "this" {
  for_each      = toset(local.nat_zones)
  allocation_id = aws_eip.nat[each.key].id
  subnet_id     = aws_subnet.nat[each.key].id
  tags          = merge(local.tags, { Name = "${var.name}-${each.key}" })
  depends_on    = [aws_internet_gateway.this]
}

resource "aws_route" "nodes_to_nat" {
  for_each               = toset(local.has_nat ? local.zones : [])
  route_table_id         = aws_route_table.nodes[each.key].id
  destination_cidr_block = "0.0.0.0/0"
  nat_gateway_id         = aws_nat_gateway.this[contains(local.nat_zones, each.key) ? each.key : local.nat_zones[0]].id
}
