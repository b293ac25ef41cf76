variable "partition" {
  description = "aws, aws-cn or aws-us-gov."
  type        = string
  default     = "aws"
}

variable "region" {
  description = "Region in which the controller works."
  type        = string
}

variable "account_id" {
  description = "Account in which the controller works."
  type        = string

  validation {
    condition     = can(regex("^[0-9]{12}$", var.account_id))
    error_message = "account_id must be 12 digits."
  }
}

variable "role_name" {
  description = "Name of the controller's own role: it may simulate its own permissions."
  type        = string
}

variable "owner" {
  description = "Value of the tag elastic:owner."
  type        = string
}

variable "controller" {
  description = "Value of the tag elastic:controller: which controller's machines these are."
  type        = string

  validation {
    condition     = can(regex("^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$", var.controller))
    error_message = "controller must be 1 to 63 letters, digits, '_', '.' and '-': it becomes a tag and part of a policy."
  }
}

variable "node_role_arn" {
  description = "The one role that the controller may give to machines."
  type        = string
}

variable "queue_arn" {
  description = "The one queue that the controller may read."
  type        = string
}

variable "subnet_ids" {
  description = "Where nodes may start. Nowhere else."
  type        = list(string)

  validation {
    condition     = length(var.subnet_ids) > 0
    error_message = "subnet_ids must name at least one subnet."
  }
}

variable "security_group_ids" {
  description = "Groups that nodes may be in. No others."
  type        = list(string)

  validation {
    condition     = length(var.security_group_ids) > 0
    error_message = "security_group_ids must name at least one group."
  }
}

variable "parameter_prefix" {
  description = "Path of the parameters that the controller may read: images and settings."
  type        = string
  default     = "elastic/base"

  validation {
    condition     = can(regex("^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$", var.parameter_prefix))
    error_message = "parameter_prefix must be a path such as elastic/base, without slashes at its ends and without wildcards."
  }
}

variable "instance_types" {
  description = "Instance types that may be rented, with * as wildcard: a limit that holds even if the controller is wrong. Empty: every type."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for type in var.instance_types : can(regex("^[a-z0-9-]+\\.[a-z0-9*-]+$", type))])
    error_message = "instance_types must look like p5.48xlarge or g6.*."
  }
}

variable "key_names" {
  description = "SSH key pairs that nodes may start with. Empty: none."
  type        = list(string)
  default     = []
}

variable "log_group_arn" {
  description = "Log group that the controller may write to. Null: none."
  type        = string
  default     = null
}
