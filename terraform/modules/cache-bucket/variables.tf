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

variable "bucket" {
  description = "Name of the bucket, unique in all of AWS."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$", var.bucket))
    error_message = "bucket must be 3 to 63 lower-case letters, digits and hyphens (no dots: they break TLS names)."
  }
}

variable "kms_key_arn" {
  description = "Customer key for encryption. Null: keys that S3 manages, at no cost."
  type        = string
  default     = null
}

variable "expire_prefix_days" {
  description = "Objects below a prefix to delete after so many days, e.g. { \"scratch/\" = 14 }. Never a prefix of a JuiceFS volume: it would lose data that its database still names."
  type        = map(number)
  default     = {}

  validation {
    condition     = alltrue([for prefix, days in var.expire_prefix_days : length(prefix) > 1 && endswith(prefix, "/") && days >= 1])
    error_message = "expire_prefix_days must map prefixes that end with / to at least 1 day; the whole bucket cannot expire."
  }
}
