output "node_security_group_id" {
  description = "Group of burst nodes: `security_groups` of the cloud in the policy file, and for the controller's role."
  value       = aws_security_group.nodes.id
}

output "controller_security_group_id" {
  description = "Group of the controller's host."
  value       = aws_security_group.controller.id
}
