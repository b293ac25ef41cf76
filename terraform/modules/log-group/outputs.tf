output "name" {
  description = "Name of the log group."
  value       = aws_cloudwatch_log_group.this.name
}

output "arn" {
  description = "For the roles that write to it."
  value       = aws_cloudwatch_log_group.this.arn
}
