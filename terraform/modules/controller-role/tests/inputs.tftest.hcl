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
  name               = "elastic-test"
  owner              = "desk"
  controller         = "main"
  node_role_arn      = "arn:aws:iam::123456789012:role/elastic-test-node"
  queue_arn          = "arn:aws:sqs:us-east-1:123456789012:elastic-test-events"
  subnet_ids         = ["subnet-0123456789abcdef0"]
  security_group_ids = ["sg-0123456789abcdef0"]
}

run "only_ec2_becomes_the_controller_unless_told" {
  command = plan

  assert {
    condition     = length(jsondecode(aws_iam_role.controller.assume_role_policy).Statement) == 1
    error_message = "nobody else"
  }
  assert {
    condition     = aws_iam_role_policy.controller.policy == output.policy_json
    error_message = "the output is the policy in force"
  }
}

run "a_service_account_and_a_person_may" {
  command = plan

  variables {
    trusted_principal_arns = ["arn:aws:iam::123456789012:role/on-prem"]
    oidc = {
      provider_arn = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.us-east-1.amazonaws.com/id/ABC"
      issuer       = "oidc.eks.us-east-1.amazonaws.com/id/ABC"
      subject      = "system:serviceaccount:elastic:controller"
    }
  }

  assert {
    condition     = jsondecode(aws_iam_role.controller.assume_role_policy).Statement[2].Condition.StringEquals["oidc.eks.us-east-1.amazonaws.com/id/ABC:sub"] == "system:serviceaccount:elastic:controller"
    error_message = "one service account, not a namespace"
  }
}

run "every_service_account_is_refused" {
  command = plan

  variables {
    oidc = { provider_arn = "arn:x", issuer = "x", subject = "system:serviceaccount:elastic:*" }
  }

  expect_failures = [var.oidc]
}

run "everybody_is_refused" {
  command = plan

  variables {
    trusted_principal_arns = ["*"]
  }

  expect_failures = [var.trusted_principal_arns]
}

run "an_owner_that_would_widen_the_policy_is_refused" {
  command = plan

  variables {
    owner = "*"
  }

  expect_failures = [var.owner]
}
