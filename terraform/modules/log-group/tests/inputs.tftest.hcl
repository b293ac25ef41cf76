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

run "logs_end_some_day" {
  command = plan

  assert {
    condition     = aws_cloudwatch_log_group.this.retention_in_days == 30
    error_message = "a month unless told"
  }
}

run "a_time_cloudwatch_does_not_know_is_refused" {
  command = plan

  variables {
    retention_days = 45
  }

  expect_failures = [var.retention_days]
}
