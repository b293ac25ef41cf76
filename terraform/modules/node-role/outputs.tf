output "role_arn" {
  description = "The one role that the controller may pass to machines."
  value       = aws_iam_role.node.arn
}

output "instance_profile_name" {
  description = "`instance_profile` of the cloud in the policy file."
  value       = aws_iam_instance_profile.node.name
}
