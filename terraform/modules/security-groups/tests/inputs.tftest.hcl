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
  name       = "elastic-test"
  owner      = "desk"
  vpc_id     = "vpc-0123456789abcdef0"
  site_cidrs = ["10.20.0.0/16", "10.21.0.0/16"]
}

run "the_site_reaches_only_the_ports_of_the_scheduler" {
  command = plan

  assert {
    condition     = length(aws_vpc_security_group_ingress_rule.nodes_from_site) == 4
    error_message = "each network by each range of ports"
  }
  assert {
    condition     = aws_vpc_security_group_ingress_rule.nodes_from_site["slurmd 10.20.0.0/16"].from_port == 6818
    error_message = "slurmd listens on 6818"
  }
}

run "the_internet_is_refused" {
  command = plan

  variables {
    site_cidrs = ["0.0.0.0/0"]
  }

  expect_failures = [var.site_cidrs]
}

run "ports_the_wrong_way_round_are_refused" {
  command = plan

  variables {
    node_ports = { kubelet = { from = 10251, to = 10250 } }
  }

  expect_failures = [var.node_ports]
}
