output "topic_arn" {
  description = "Notices of the budget come here too: subscribe a chat or a pager."
  value       = aws_sns_topic.budget.arn
}

output "budget_name" {
  description = "Name of the budget in the billing console."
  value       = aws_budgets_budget.burst.name
}
