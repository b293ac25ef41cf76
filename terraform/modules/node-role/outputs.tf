output "role_arn" {
  description = "The one role that the controller may pass to machines."
  value       = aws_iam_role.node.arn
}

output "instance_profile_name" {
  description = "Goes into the pool's shape as `instance_profile`."
  value       = aws_iam_instance_profile.node.name
}
