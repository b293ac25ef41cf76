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

variable "trusted_principal_arns" {
  description = "IAM users or roles that may become the controller: for a controller that runs at the site. Empty: only EC2."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for arn in var.trusted_principal_arns : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:(user|role)/[^*]+$", arn))])
    error_message = "trusted_principal_arns must be ARNs of users or roles, without wildcards: arn:aws:iam::ACCOUNT:role/NAME."
  }
}

variable "oidc" {
  description = "For a controller in Kubernetes (IAM roles for service accounts): the provider's ARN, its issuer without https://, and the service account as system:serviceaccount:NAMESPACE:NAME. Null: none."
  type        = object({ provider_arn = string, issuer = string, subject = string })
  default     = null

  validation {
    condition     = var.oidc == null ? true : can(regex("^system:serviceaccount:[a-z0-9-]+:[a-z0-9-]+$", var.oidc.subject))
    error_message = "oidc.subject must be one service account, without wildcards: system:serviceaccount:NAMESPACE:NAME."
  }
}

variable "managed_policy_arns" {
  description = "Policies to attach besides, e.g. AmazonSSMManagedInstanceCore so that people reach the host over Session Manager."
  type        = list(string)
  default     = []
}

variable "permissions_boundary_arn" {
  description = "Permissions boundary that the account asks of every role. Null: none."
  type        = string
  default     = null
}
