# Where the controller and the nodes write, for as long as somebody may ask what happened.

locals {
  # The border: what carries this tag is Terraform's, and the controller never touches it.
  tags = merge(var.tags, { "elastic:made-by" = "terraform", "elastic:owner" = var.owner })
}

resource "aws_cloudwatch_log_group" "this" {
  name              = "/elastic/${var.name}"
  retention_in_days = var.retention_days
  kms_key_id        = var.kms_key_arn
  tags              = local.tags
}
