# Runs without an account: `terraform init && terraform test`.
mock_provider "aws" {
  mock_resource "aws_sns_topic" {
    defaults = { arn = "arn:aws:sns:us-east-1:123456789012:elastic-test-budget" }
  }
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
  name          = "elastic-test"
  owner         = "desk"
  usd_per_month = 20000
  emails        = ["platform@example.com"]
}

run "the_budget_counts_what_carries_the_owner_tag" {
  # applied to the mock: a set with an ARN inside has no length before
  assert {
    condition     = one(aws_budgets_budget.burst.cost_filter).values[0] == join("$", ["user:elastic:owner", "desk"])
    error_message = "the filter names tag and value"
  }
  assert {
    condition     = length(aws_budgets_budget.burst.notification) == 4
    error_message = "three shares spent, one forecast"
  }
}

run "a_budget_of_nothing_is_refused" {
  command = plan

  variables {
    usd_per_month = 0
  }

  expect_failures = [var.usd_per_month]
}

run "too_many_notices_are_refused" {
  command = plan

  variables {
    warn_at_percent = [10, 20, 30, 40, 50]
  }

  expect_failures = [var.warn_at_percent]
}
