# The account's own second opinion about money. It sees what was billed, hours late: the controller's budgets stop
# launches, this only tells. It counts what carries our owner tag, which must be active as a cost allocation tag.

data "aws_caller_identity" "current" {}

locals {
  # The border: what carries this tag is Terraform's, and the controller never touches it.
  tags = merge(var.tags, { "elastic:made-by" = "terraform", "elastic:owner" = var.owner })

  notices = concat(
    [for share in var.warn_at_percent : { type = "ACTUAL", share = share }],
    [{ type = "FORECASTED", share = 100 }],
  )
}

resource "aws_sns_topic" "budget" {
  name = "${var.name}-budget"
  tags = local.tags
}

resource "aws_sns_topic_policy" "budget" {
  arn = aws_sns_topic.budget.arn

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "OurBudgets"
      Effect    = "Allow"
      Action    = "sns:Publish"
      Principal = { Service = "budgets.amazonaws.com" }
      Resource  = aws_sns_topic.budget.arn
      Condition = {
        StringEquals = { "aws:SourceAccount" = data.aws_caller_identity.current.account_id }
      }
    }]
  })
}

resource "aws_budgets_budget" "burst" {
  name         = "${var.name}-burst"
  budget_type  = "COST"
  limit_amount = tostring(var.usd_per_month)
  limit_unit   = "USD"
  time_unit    = "MONTHLY"
  tags         = local.tags

  cost_filter {
    name   = "TagKeyValue"
    values = [format("user:elastic:owner%s%s", "$", var.owner)]
  }

  dynamic "notification" {
    for_each = local.notices

    content {
      comparison_operator        = "GREATER_THAN"
      notification_type          = notification.value.type
      threshold                  = notification.value.share
      threshold_type             = "PERCENTAGE"
      subscriber_sns_topic_arns  = [aws_sns_topic.budget.arn]
      subscriber_email_addresses = var.emails
    }
  }

  depends_on = [aws_sns_topic_policy.budget]
}
