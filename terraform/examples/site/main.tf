# One site with everything: copy this folder beside itself, fill in example.tfvars, read the plan.

locals {
  name = "elastic-${var.owner}"
}

module "network" {
  source = "../../modules/network"

  name           = local.name
  owner          = var.owner
  zones          = var.zones
  nat            = var.nat
  vpn_gateway_id = var.vpn_gateway_id
}

module "security_groups" {
  source = "../../modules/security-groups"

  name       = local.name
  owner      = var.owner
  vpc_id     = module.network.vpc_id
  site_cidrs = var.site_cidrs
}

module "log_group" {
  source = "../../modules/log-group"

  name  = local.name
  owner = var.owner
}

module "cache_bucket" {
  source = "../../modules/cache-bucket"

  name   = local.name
  owner  = var.owner
  bucket = var.cache_bucket
}

module "node_role" {
  source = "../../modules/node-role"

  name             = local.name
  owner            = var.owner
  cache_bucket_arn = module.cache_bucket.bucket_arn
  log_group_arn    = module.log_group.arn
}

module "interruption_events" {
  source = "../../modules/interruption-events"

  name  = local.name
  owner = var.owner
}

module "launch_template_base" {
  source = "../../modules/launch-template-base"

  name   = local.name
  owner  = var.owner
  images = var.images

  settings = {
    subnets            = module.network.subnets
    security_group_ids = [module.security_groups.node_security_group_id]
    instance_profile   = module.node_role.instance_profile_name
    queue_url          = module.interruption_events.queue_url
  }
}

module "controller_role" {
  source = "../../modules/controller-role"

  name                   = local.name
  owner                  = var.owner
  controller             = var.controller
  node_role_arn          = module.node_role.role_arn
  queue_arn              = module.interruption_events.queue_arn
  subnet_ids             = [for zone in sort(keys(module.network.subnets)) : module.network.subnets[zone]]
  security_group_ids     = [module.security_groups.node_security_group_id]
  parameter_prefix       = module.launch_template_base.parameter_prefix
  instance_types         = var.instance_types
  log_group_arn          = module.log_group.arn
  trusted_principal_arns = var.trusted_principal_arns
  managed_policy_arns    = var.controller_host == null ? [] : ["arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"]
}

module "controller_host" {
  source = "../../modules/controller-host"
  count  = var.controller_host == null ? 0 : 1

  name                  = local.name
  owner                 = var.owner
  zone                  = var.zones[0]
  subnet_id             = module.network.subnets[var.zones[0]]
  security_group_id     = module.security_groups.controller_security_group_id
  instance_profile_name = module.controller_role.instance_profile_name
  image_id              = var.controller_host.image_id
  package               = var.controller_host.package
}

module "budget_alarm" {
  source = "../../modules/budget-alarm"

  name          = local.name
  owner         = var.owner
  usd_per_month = var.usd_per_month
  emails        = var.emails
}
