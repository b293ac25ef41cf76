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
}

run "a_node_reads_its_secrets_and_nothing_more" {
  command = plan

  assert {
    condition     = toset(flatten([for s in jsondecode(aws_iam_role_policy.node.policy).Statement : s.Action])) == toset(["ssm:GetParameter", "ssm:GetParameters", "ssm:GetParametersByPath", "secretsmanager:GetSecretValue"])
    error_message = "without a bucket and a log group a node only reads"
  }
  assert {
    condition     = jsondecode(aws_iam_role_policy.node.policy).Statement[0].Resource == ["arn:aws:ssm:us-east-1:123456789012:parameter/elastic/nodes/*"]
    error_message = "only below its prefix"
  }
}

run "what_is_switched_on_is_bound_to_its_resource" {
  command = plan

  variables {
    cache_bucket_arn = "arn:aws:s3:::cache"
    log_group_arn    = "arn:aws:logs:us-east-1:123456789012:log-group:/elastic/test"
    kms_key_arns     = ["arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"]
  }

  assert {
    condition     = length(jsondecode(aws_iam_role_policy.node.policy).Statement) == 6
    error_message = "four more statements"
  }
  assert {
    condition     = !anytrue([for s in jsondecode(aws_iam_role_policy.node.policy).Statement : contains(flatten([s.Resource]), "*")])
    error_message = "no wildcard resource"
  }
}

run "a_wildcard_in_the_prefix_is_refused" {
  command = plan

  variables {
    secrets_prefix = "elastic/*"
  }

  expect_failures = [var.secrets_prefix]
}
