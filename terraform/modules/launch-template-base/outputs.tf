output "image_ids" {
  description = "By pool: `image` of the pool in the policy file."
  value       = { for pool, parameter in aws_ssm_parameter.image : pool => "resolve:ssm:${parameter.name}" }
}

output "settings_parameter" {
  description = "Name of the parameter with the settings of the account as JSON."
  value       = aws_ssm_parameter.settings.name
}

output "parameter_prefix" {
  description = "What the controller's role must be able to read."
  value       = "${var.parameter_prefix}/${var.name}"
}
