output "queue_url" {
  description = "What the controller is told as `queue_url`."
  value       = aws_sqs_queue.events.url
}

output "queue_arn" {
  description = "The one queue that the controller's role may read."
  value       = aws_sqs_queue.events.arn
}

output "dead_letter_queue_url" {
  description = "Messages that were received too often, or could not be delivered: look at them, then purge."
  value       = aws_sqs_queue.dead.url
}

output "rule_arns" {
  description = "The rules that may write to the queue."
  value       = local.rule_arns
}
