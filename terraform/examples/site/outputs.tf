output "cloud_for_the_policy" {
  description = "Goes into the policy file as it is: terraform output -raw cloud_for_the_policy."
  value = yamlencode({
    clouds = {
      aws = {
        kind             = "aws"
        region           = var.region
        owner            = var.owner
        controller       = var.controller
        subnets          = module.network.subnets
        security_groups  = [module.security_groups.node_security_group_id]
        instance_profile = module.node_role.instance_profile_name
        queue_url        = module.interruption_events.queue_url
      }
    }
  })
}

output "images" {
  description = "By pool: `image` of the pool in the policy file."
  value       = module.launch_template_base.image_ids
}

output "controller_role_arn" {
  description = "The role that the controller takes on."
  value       = module.controller_role.role_arn
}

output "controller_policy_json" {
  description = "What it may do."
  value       = module.controller_role.policy_json
}

output "controller_instance_id" {
  description = "The controller's host, if there is one."
  value       = one(module.controller_host[*].instance_id)
}

output "cache_bucket" {
  description = "For `juicefs format`."
  value       = module.cache_bucket.bucket
}
