# The slow half of a launch template: images and where nodes start. The controller makes the templates themselves, one
# for each content, and names an image as resolve:ssm:PARAMETER, so that a new image is one reviewed change here.

data "aws_region" "current" {}

locals {
  # The border: what carries this tag is Terraform's, and the controller never touches it.
  tags = merge(var.tags, { "elastic:made-by" = "terraform", "elastic:owner" = var.owner })
}

resource "aws_ssm_parameter" "image" {
  for_each    = var.images
  name        = "/${var.parameter_prefix}/${var.name}/images/${each.key}"
  description = "Image of the pool ${each.key}"
  type        = "String"
  data_type   = "aws:ec2:image" # AWS checks that the image exists and may be used
  value       = each.value
  tags        = local.tags
}

resource "aws_ssm_parameter" "settings" {
  name        = "/${var.parameter_prefix}/${var.name}/settings"
  description = "What burst nodes of ${var.owner} start with; no secret"
  type        = "String"
  value       = jsonencode(merge(var.settings, { region = data.aws_region.current.id, owner = var.owner }))
  tags        = local.tags
}
