# Runs without an account: `terraform init && terraform test`.
mock_provider "aws" {
  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }
  mock_data "aws_region" {
    defaults = { id = "us-east-1" }
  }
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
}

variables {
  name  = "elastic-test"
  owner = "desk"
  zones = ["us-east-1a", "us-east-1b", "us-east-1c"]
}

run "subnets_of_zones_do_not_overlap" {
  command = plan

  assert {
    condition     = length(distinct([for s in aws_subnet.nodes : s.cidr_block])) == 3
    error_message = "each zone has a block of its own"
  }
  assert {
    condition     = alltrue([for s in aws_subnet.nodes : !s.map_public_ip_on_launch])
    error_message = "nodes have no public addresses"
  }
  assert {
    condition     = length(aws_nat_gateway.this) == 0 && length(aws_internet_gateway.this) == 0
    error_message = "no way to the internet unless it is asked for"
  }
}

run "a_zone_appended_moves_no_other" {
  command = plan

  variables {
    zones = ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d"]
  }

  assert {
    condition     = aws_subnet.nodes["us-east-1a"].cidr_block == "10.64.0.0/20" && aws_subnet.nodes["us-east-1d"].cidr_block == "10.64.48.0/20"
    error_message = "addresses follow the place in the list"
  }
}

run "one_nat_gateway_serves_all_zones" {
  command = plan

  variables {
    nat = "single"
  }

  assert {
    condition     = length(aws_nat_gateway.this) == 1 && length(aws_route.nodes_to_nat) == 3
    error_message = "one gateway, a route from each zone"
  }
}

run "a_nat_gateway_a_zone" {
  command = plan

  variables {
    nat = "per-zone"
  }

  assert {
    condition     = length(aws_nat_gateway.this) == 3 && aws_subnet.nat["us-east-1c"].cidr_block == "10.64.253.0/24"
    error_message = "a gateway in each zone, in the last addresses"
  }
}

run "the_way_to_the_site_reaches_every_zone" {
  command = plan

  variables {
    vpn_gateway_id = "vgw-0123456789abcdef0"
  }

  assert {
    condition     = length(aws_vpn_gateway_route_propagation.site) == 3
    error_message = "a route from each zone"
  }
}

run "an_existing_vpc_is_passed_through" {
  command = plan

  variables {
    zones            = []
    nat              = "single"
    existing_vpc_id  = "vpc-0123456789abcdef0"
    existing_subnets = { us-east-1a = "subnet-0123456789abcdef0" }
  }

  assert {
    condition     = length(aws_vpc.this) + length(aws_subnet.nodes) + length(aws_vpc_endpoint.s3) + length(aws_nat_gateway.this) == 0
    error_message = "nothing is made in a network of others"
  }
  assert {
    condition     = output.vpc_id == "vpc-0123456789abcdef0" && output.subnets["us-east-1a"] == "subnet-0123456789abcdef0"
    error_message = "what is there is passed on"
  }
}

run "half_an_existing_network_is_refused" {
  command = plan

  variables {
    existing_vpc_id = "vpc-0123456789abcdef0"
  }

  expect_failures = [var.existing_subnets]
}

run "a_network_without_a_zone_is_refused" {
  command = plan

  variables {
    zones = []
  }

  expect_failures = [var.zones]
}

run "too_small_a_block_is_refused" {
  command = plan

  variables {
    cidr = "10.64.0.0/24"
  }

  expect_failures = [var.cidr]
}
