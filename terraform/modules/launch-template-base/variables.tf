variable "name" {
  description = "Prefix of all names made here: lower case, digits, hyphens."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,30}[a-z0-9]$", var.name))
    error_message = "name must be 3 to 32 lower-case letters, digits and hyphens, and start with a letter."
  }
}

variable "owner" {
  description = "Value of the tag elastic:owner: the site whose capacity this is. The controller is told the same."
  type        = string

  validation {
    condition     = can(regex("^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$", var.owner))
    error_message = "owner must be 1 to 63 letters, digits, '_', '.' and '-': it becomes a tag and part of a policy."
  }
}

variable "tags" {
  description = "More tags for everything made here. They cannot replace elastic:made-by and elastic:owner."
  type        = map(string)
  default     = {}
}

variable "images" {
  description = "Machine image of each burst pool, by the pool's name in the policy."
  type        = map(string)

  validation {
    condition     = length(var.images) > 0 && alltrue([for id in values(var.images) : can(regex("^ami-[0-9a-f]{8,17}$", id))])
    error_message = "images must map at least one pool to an id like ami-0123456789abcdef0."
  }

  validation {
    condition     = alltrue([for pool in keys(var.images) : can(regex("^[A-Za-z0-9_.-]+$", pool))])
    error_message = "pools in images must be letters, digits, '_', '.' and '-': they become names of parameters."
  }
}

variable "parameter_prefix" {
  description = "Path under which the parameters lie; the controller's role may read it."
  type        = string
  default     = "elastic/base"

  validation {
    condition     = can(regex("^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$", var.parameter_prefix)) && !can(regex("^(aws|ssm)", var.parameter_prefix))
    error_message = "parameter_prefix must be a path such as elastic/base, without slashes at its ends, not below aws or ssm."
  }
}

variable "settings" {
  description = "What all nodes start with and what the controller is told of the account."
  type = object({
    subnets            = map(string)
    security_group_ids = list(string)
    instance_profile   = string
    queue_url          = string
    root_volume_gib    = optional(number, 200)
  })

  validation {
    condition     = var.settings.root_volume_gib >= 8 && var.settings.root_volume_gib <= 16384
    error_message = "settings.root_volume_gib must be between 8 and 16384."
  }
}
