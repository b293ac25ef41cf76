output "role_arn" {
  description = "The controller's role."
  value       = aws_iam_role.controller.arn
}

output "instance_profile_name" {
  description = "For the controller's host."
  value       = aws_iam_instance_profile.controller.name
}

output "policy_json" {
  description = "What the controller may do, as IAM reads it."
  value       = module.policy.policy_json
}
