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

variable "secrets_prefix" {
  description = "Where the nodes' secrets lie: parameters under /PREFIX/ and secrets under PREFIX/. Nothing else of the account can be read."
  type        = string
  default     = "elastic/nodes"

  validation {
    condition     = can(regex("^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$", var.secrets_prefix)) && !startswith(var.secrets_prefix, "aws")
    error_message = "secrets_prefix must be a path such as elastic/nodes: no slash at its ends, no wildcard, not below aws."
  }
}

variable "kms_key_arns" {
  description = "Customer keys that encrypt those secrets or the cache bucket. AWS-managed keys need no entry."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for arn in var.kms_key_arns : can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/", arn))])
    error_message = "kms_key_arns must be ARNs of keys: arn:aws:kms:REGION:ACCOUNT:key/..."
  }
}

variable "cache_bucket_arn" {
  description = "Bucket of the data cache, if nodes may read and write it. Null: no bucket."
  type        = string
  default     = null
}

variable "log_group_arn" {
  description = "Log group that nodes may write to. Null: none."
  type        = string
  default     = null
}

variable "permissions_boundary_arn" {
  description = "Permissions boundary that the account asks of every role. Null: none."
  type        = string
  default     = null
}
