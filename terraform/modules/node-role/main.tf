# What a burst node may do: read its own secrets, use the cache, write its log. It can rent, tag and end nothing: it
# ends itself by powering off, which needs no permission. Its tags it reads from the instance metadata.

data "aws_caller_identity" "current" {}
data "aws_partition" "current" {}
data "aws_region" "current" {}

locals {
  # The border: what carries this tag is Terraform's, and the controller never touches it.
  tags = merge(var.tags, { "elastic:made-by" = "terraform", "elastic:owner" = var.owner })

  here = "${data.aws_region.current.id}:${data.aws_caller_identity.current.account_id}"
  arn  = "arn:${data.aws_partition.current.partition}"

  statements = concat(
    [
      { # the node agent at boot: munge key, join token
        Sid      = "ReadOwnParameters"
        Effect   = "Allow"
        Action   = ["ssm:GetParameter", "ssm:GetParameters", "ssm:GetParametersByPath"]
        Resource = ["${local.arn}:ssm:${local.here}:parameter/${var.secrets_prefix}/*"]
      },
      { # the same from Secrets Manager
        Sid      = "ReadOwnSecrets"
        Effect   = "Allow"
        Action   = ["secretsmanager:GetSecretValue"]
        Resource = ["${local.arn}:secretsmanager:${local.here}:secret:${var.secrets_prefix}/*"]
      },
    ],
    [for arns in [var.kms_key_arns] : { # where a customer key encrypts them
      Sid      = "DecryptThem"
      Effect   = "Allow"
      Action   = ["kms:Decrypt", "kms:GenerateDataKey"]
      Resource = arns
    } if length(arns) > 0],
    [for arn in compact([var.cache_bucket_arn]) : { # juicefs mount and warm-up
      Sid      = "ListCache"
      Effect   = "Allow"
      Action   = ["s3:ListBucket", "s3:GetBucketLocation", "s3:ListBucketMultipartUploads"]
      Resource = [arn]
    }],
    [for arn in compact([var.cache_bucket_arn]) : { # the same: blocks in and out
      Sid      = "UseCache"
      Effect   = "Allow"
      Action   = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"]
      Resource = ["${arn}/*"]
    }],
    [for arn in compact([var.log_group_arn]) : { # the log shipper on the node
      Sid      = "WriteLog"
      Effect   = "Allow"
      Action   = ["logs:CreateLogStream", "logs:PutLogEvents", "logs:DescribeLogStreams"]
      Resource = ["${arn}:*"]
    }],
  )
}

resource "aws_iam_role" "node" {
  name                 = "${var.name}-node"
  description          = "Burst nodes of ${var.owner}: reads its own secrets and nothing more"
  permissions_boundary = var.permissions_boundary_arn
  tags                 = local.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "ec2.amazonaws.com" }
    }]
  })
}

resource "aws_iam_role_policy" "node" {
  name   = "node"
  role   = aws_iam_role.node.name
  policy = jsonencode({ Version = "2012-10-17", Statement = local.statements })
}

resource "aws_iam_instance_profile" "node" {
  name = "${var.name}-node"
  role = aws_iam_role.node.name
  tags = local.tags
}
