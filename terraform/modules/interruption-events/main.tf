# What EC2 and AWS Health say about machines goes through EventBridge into one queue, which the controller reads. These
# events name instances, not tags: the controller settles what is not its own. Rules of one account and region.

data "aws_caller_identity" "current" {}

locals {
  # The border: what carries this tag is Terraform's, and the controller never touches it.
  tags = merge(var.tags, { "elastic:made-by" = "terraform", "elastic:owner" = var.owner })

  patterns = {
    spot-interruption = {
      source      = ["aws.ec2"]
      detail-type = ["EC2 Spot Instance Interruption Warning"]
    }
    rebalance = {
      source      = ["aws.ec2"]
      detail-type = ["EC2 Instance Rebalance Recommendation"]
    }
    # Only ways down: machines that come up are found by listing, and a busy account would fill the queue with them.
    state-change = {
      source      = ["aws.ec2"]
      detail-type = ["EC2 Instance State-change Notification"]
      detail      = { state = ["stopping", "stopped", "shutting-down", "terminated"] }
    }
    scheduled-change = {
      source      = ["aws.health"]
      detail-type = ["AWS Health Event"]
      detail      = { service = ["EC2"], eventTypeCategory = ["scheduledChange", "issue"] }
    }
  }

  rule_arns = [for key in sort(keys(local.patterns)) : aws_cloudwatch_event_rule.this[key].arn]
}

resource "aws_cloudwatch_event_rule" "this" {
  for_each      = local.patterns
  name          = "${var.name}-${each.key}"
  description   = "To the elastic controller's queue: ${each.key}"
  event_pattern = jsonencode(each.value)
  tags          = local.tags
}

resource "aws_cloudwatch_event_target" "queue" {
  for_each  = local.patterns
  rule      = aws_cloudwatch_event_rule.this[each.key].name
  target_id = "queue"
  arn       = aws_sqs_queue.events.arn

  dead_letter_config {
    arn = aws_sqs_queue.dead.arn
  }

  retry_policy { # after two minutes a notice has no use
    maximum_event_age_in_seconds = 120
    maximum_retry_attempts       = 10
  }
}

resource "aws_sqs_queue" "events" {
  name                       = "${var.name}-events"
  message_retention_seconds  = var.retention_s
  visibility_timeout_seconds = var.visibility_timeout_s
  receive_wait_time_seconds  = 20
  sqs_managed_sse_enabled    = true
  tags                       = local.tags

  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dead.arn
    maxReceiveCount     = var.most_receives
  })
}

resource "aws_sqs_queue" "dead" {
  name                      = "${var.name}-events-dead"
  message_retention_seconds = 1209600 # 14 days, the most there is: time for a person to look
  sqs_managed_sse_enabled   = true
  tags                      = local.tags
}

resource "aws_sqs_queue_redrive_allow_policy" "dead" {
  queue_url = aws_sqs_queue.dead.id

  redrive_allow_policy = jsonencode({
    redrivePermission = "byQueue"
    sourceQueueArns   = [aws_sqs_queue.events.arn]
  })
}

# Only these rules may write, and only over TLS. A forged notice could drain the whole burst.
resource "aws_sqs_queue_policy" "this" {
  for_each  = { events = aws_sqs_queue.events, dead = aws_sqs_queue.dead }
  queue_url = each.value.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "OurRules"
        Effect    = "Allow"
        Action    = "sqs:SendMessage"
        Principal = { Service = "events.amazonaws.com" }
        Resource  = each.value.arn
        Condition = {
          ArnEquals    = { "aws:SourceArn" = local.rule_arns }
          StringEquals = { "aws:SourceAccount" = data.aws_caller_identity.current.account_id }
        }
      },
      {
        Sid       = "OnlyTls"
        Effect    = "Deny"
        Action    = "sqs:*"
        Principal = "*"
        Resource  = each.value.arn
        Condition = { Bool = { "aws:SecureTransport" = "false" } }
      },
    ]
  })
}
