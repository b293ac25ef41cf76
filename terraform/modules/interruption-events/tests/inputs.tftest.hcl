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

run "every_kind_of_notice_has_its_rule" {
  command = plan

  assert {
    condition = toset(flatten([for r in aws_cloudwatch_event_rule.this : jsondecode(r.event_pattern)["detail-type"]])) == toset([
      "EC2 Spot Instance Interruption Warning", "EC2 Instance Rebalance Recommendation",
      "EC2 Instance State-change Notification", "AWS Health Event",
    ])
    error_message = "spot, rebalance, state and health"
  }
  assert {
    condition     = aws_sqs_queue.events.receive_wait_time_seconds == 20 && aws_sqs_queue.events.sqs_managed_sse_enabled
    error_message = "long polling, encrypted"
  }
}

run "too_short_a_memory_is_refused" {
  command = plan

  variables {
    retention_s = 60
  }

  expect_failures = [var.retention_s]
}
