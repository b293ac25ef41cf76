output "policy_json" {
  description = "The policy as IAM reads it."
  value       = jsonencode({ Version = "2012-10-17", Statement = local.statements })
}
