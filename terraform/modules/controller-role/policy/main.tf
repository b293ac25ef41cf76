# Everything the controller may do, each with the call that needs it. No provider is used: any engine evaluates this
# without an account, and the tests do. Three rules:
#   - a machine, fleet or template is only made with our tags in the very call that makes it;
#   - only what carries our owner tag and elastic:made-by = controller is ended: never Terraform's, never another's;
#   - a wildcard resource is only there where the call reads and AWS knows no narrower one.

locals {
  arn  = "arn:${var.partition}"
  ec2  = "${local.arn}:ec2:${var.region}:${var.account_id}"
  ssm  = "${local.arn}:ssm:${var.region}"
  made = "controller"

  tags_asked = {
    "aws:RequestTag/elastic:owner"      = var.owner
    "aws:RequestTag/elastic:controller" = var.controller
    "aws:RequestTag/elastic:made-by"    = local.made
  }
  tags_carried = {
    "aws:ResourceTag/elastic:owner"   = var.owner
    "aws:ResourceTag/elastic:made-by" = local.made
  }
  type_limit = length(var.instance_types) == 0 ? {} : {
    StringLikeIfExists = { "ec2:InstanceType" = var.instance_types } # a fleet itself has no type
  }

  statements = concat(local.observe, local.rent, local.give_back, local.log)

  observe = [
    {
      Sid    = "ReadEc2"
      Effect = "Allow"
      Action = [
        "ec2:DescribeInstances",             # every tick: our machines, by tag
        "ec2:DescribeLaunchTemplates",       # a template with this content, and those unused for a week
        "ec2:DescribeInstanceTypes",         # offerings: GPUs, memory, network
        "ec2:DescribeInstanceTypeOfferings", # offerings: zones that have a type
        "ec2:DescribeSpotPriceHistory",      # offerings: spot prices, and the ledger's costs
        "ec2:GetSpotPlacementScores",        # offerings: scores, if switched on
        "ec2:DescribeCapacityReservations",  # offerings: reservations and capacity blocks
        "ec2:DescribeAvailabilityZones",     # doctor: are the policy's zones there
        "ec2:DescribeSubnets",               # doctor: right VPC, free addresses
        "ec2:DescribeSecurityGroups",        # doctor: right VPC
        "ec2:DescribeImages",                # doctor: does the image exist
      ]
      Resource = "*" # EC2 knows no narrower one for these
    },
    {
      Sid      = "ReadPrices"
      Effect   = "Allow"
      Action   = ["pricing:GetProducts"] # offerings: on-demand prices
      Resource = "*"
    },
    {
      Sid      = "ReadQuotas"
      Effect   = "Allow"
      Action   = ["servicequotas:GetServiceQuota"] # offerings: vCPU limits of each family
      Resource = "*"
    },
    {
      Sid      = "ReadBill"
      Effect   = "Allow"
      Action   = ["ce:GetCostAndUsage"] # the daily reconciliation; 0.01 USD a call
      Resource = "*"
    },
    {
      Sid      = "KnowItself"
      Effect   = "Allow"
      Action   = ["sts:GetCallerIdentity"] # doctor: which account is this
      Resource = "*"
    },
    {
      Sid      = "SimulateItself"
      Effect   = "Allow"
      Action   = ["iam:SimulatePrincipalPolicy"] # doctor: each permission, without using it
      Resource = "${local.arn}:iam::${var.account_id}:role/${var.role_name}"
    },
    {
      Sid    = "ReadParameters"
      Effect = "Allow"
      Action = [
        "ssm:GetParameter",  # doctor: what does an image's parameter say
        "ssm:GetParameters", # launches: EC2 reads resolve:ssm:... in a template in our name
      ]
      Resource = [
        "${local.ssm}:${var.account_id}:parameter/${var.parameter_prefix}/*",
        "${local.ssm}::parameter/aws/service/*",
      ]
    },
    {
      Sid    = "ReadOurQueue"
      Effect = "Allow"
      Action = [
        "sqs:ReceiveMessage",     # interruptions: long polling
        "sqs:DeleteMessage",      # interruptions: once the effect is recorded; also in batches
        "sqs:GetQueueAttributes", # doctor: is it there, how old is what waits
      ]
      Resource = var.queue_arn
    },
  ]

  rent = [
    { # CreateFleet, which runs the machines in our name
      Sid       = "RentWithOurTags"
      Effect    = "Allow"
      Action    = ["ec2:CreateFleet", "ec2:RunInstances"]
      Resource  = ["${local.ec2}:fleet/*", "${local.ec2}:instance/*"]
      Condition = merge({ StringEquals = local.tags_asked }, local.type_limit)
    },
    { # the same: from the controller's own templates only
      Sid       = "RentFromOurTemplates"
      Effect    = "Allow"
      Action    = ["ec2:CreateFleet", "ec2:RunInstances"]
      Resource  = "${local.ec2}:launch-template/*"
      Condition = { StringEquals = local.tags_carried }
    },
    { # the same: what a machine is put together from. Nothing starts by this alone: each start also asks for instance/*.
      Sid    = "RentInto"
      Effect = "Allow"
      Action = ["ec2:CreateFleet", "ec2:RunInstances"]
      Resource = concat(
        [for id in var.subnet_ids : "${local.ec2}:subnet/${id}"],
        [for id in var.security_group_ids : "${local.ec2}:security-group/${id}"],
        [for name in var.key_names : "${local.ec2}:key-pair/${name}"],
        [for kind in ["network-interface", "volume", "spot-instances-request", "capacity-reservation"] : "${local.ec2}:${kind}/*"],
        [for kind in ["image", "snapshot"] : "${local.arn}:ec2:${var.region}::${kind}/*"],
      )
    },
    { # tags in the call that makes the thing: nothing that exists can be made ours
      Sid      = "TagAtCreation"
      Effect   = "Allow"
      Action   = ["ec2:CreateTags"]
      Resource = [for kind in ["fleet", "instance", "volume", "launch-template"] : "${local.ec2}:${kind}/*"]
      Condition = {
        StringEquals = {
          "ec2:CreateAction"             = ["CreateFleet", "RunInstances", "CreateLaunchTemplate"]
          "aws:RequestTag/elastic:owner" = var.owner
        }
      }
    },
    { # a node's lease is renewed while the controller lives; of what exists, only this tag and only on our machines
      Sid      = "RenewLease"
      Effect   = "Allow"
      Action   = ["ec2:CreateTags"]
      Resource = "${local.ec2}:instance/*"
      Condition = {
        StringEquals                = local.tags_carried
        "ForAllValues:StringEquals" = { "aws:TagKeys" = ["elastic:ends-at"] }
      }
    },
    { # a template for each content, when a launch first needs it
      Sid       = "MakeTemplates"
      Effect    = "Allow"
      Action    = ["ec2:CreateLaunchTemplate"]
      Resource  = "${local.ec2}:launch-template/*"
      Condition = { StringEquals = local.tags_asked }
    },
    { # the template's instance profile
      Sid       = "PassNodeRole"
      Effect    = "Allow"
      Action    = ["iam:PassRole"]
      Resource  = var.node_role_arn
      Condition = { StringEquals = { "iam:PassedToService" = var.partition == "aws-cn" ? "ec2.amazonaws.com.cn" : "ec2.amazonaws.com" } }
    },
  ]

  give_back = [
    { # scale-in, partial gangs, orphans
      Sid       = "EndOurMachines"
      Effect    = "Allow"
      Action    = ["ec2:TerminateInstances"]
      Resource  = "${local.ec2}:instance/*"
      Condition = { StringEquals = local.tags_carried }
    },
    { # templates that no launch wanted for a week
      Sid       = "RemoveOurTemplates"
      Effect    = "Allow"
      Action    = ["ec2:DeleteLaunchTemplate"]
      Resource  = "${local.ec2}:launch-template/*"
      Condition = { StringEquals = local.tags_carried }
    },
  ]

  log = [for arn in compact([var.log_group_arn]) : { # the log shipper on the controller's host
    Sid      = "WriteLog"
    Effect   = "Allow"
    Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    Resource = "${arn}:*"
  }]
}
