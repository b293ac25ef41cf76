# Who the controller is. What it may do is all in ./policy.

data "aws_caller_identity" "current" {}
data "aws_partition" "current" {}
data "aws_region" "current" {}

locals {
  # The border: what carries this tag is Terraform's, and the controller never touches it.
  tags = merge(var.tags, { "elastic:made-by" = "terraform", "elastic:owner" = var.owner })

  name = "${var.name}-controller"

  ec2 = [{
    Effect    = "Allow"
    Action    = "sts:AssumeRole"
    Principal = { Service = "ec2.amazonaws.com" }
  }]
  people = length(var.trusted_principal_arns) == 0 ? [] : [{
    Effect    = "Allow"
    Action    = "sts:AssumeRole"
    Principal = { AWS = var.trusted_principal_arns }
  }]
  kubernetes = [for oidc in var.oidc == null ? [] : [var.oidc] : {
    Effect    = "Allow"
    Action    = "sts:AssumeRoleWithWebIdentity"
    Principal = { Federated = oidc.provider_arn }
    Condition = {
      StringEquals = { "${oidc.issuer}:sub" = oidc.subject, "${oidc.issuer}:aud" = "sts.amazonaws.com" }
    }
  }]
}

module "policy" {
  source = "./policy"

  partition          = data.aws_partition.current.partition
  region             = data.aws_region.current.id
  account_id         = data.aws_caller_identity.current.account_id
  role_name          = local.name
  owner              = var.owner
  controller         = var.controller
  node_role_arn      = var.node_role_arn
  queue_arn          = var.queue_arn
  subnet_ids         = var.subnet_ids
  security_group_ids = var.security_group_ids
  parameter_prefix   = var.parameter_prefix
  instance_types     = var.instance_types
  key_names          = var.key_names
  log_group_arn      = var.log_group_arn
}

resource "aws_iam_role" "controller" {
  name                 = local.name
  description          = "The elastic controller ${var.controller} of ${var.owner}"
  permissions_boundary = var.permissions_boundary_arn
  tags                 = local.tags

  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = concat(local.ec2, local.people, local.kubernetes)
  })
}

resource "aws_iam_role_policy" "controller" {
  name   = "controller"
  role   = aws_iam_role.controller.name
  policy = module.policy.policy_json
}

resource "aws_iam_role_policy_attachment" "more" {
  for_each   = toset(var.managed_policy_arns)
  role       = aws_iam_role.controller.name
  policy_arn = each.key
}

resource "aws_iam_instance_profile" "controller" {
  name = local.name
  role = aws_iam_role.controller.name
  tags = local.tags
}
