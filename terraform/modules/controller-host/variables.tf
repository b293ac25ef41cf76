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

variable "subnet_id" {
  description = "A private subnet with a way to AWS's interfaces and to the scheduler."
  type        = string
}

variable "zone" {
  description = "Zone of that subnet: the ledger's volume must be in it."
  type        = string
}

variable "security_group_id" {
  description = "Group without a way in."
  type        = string
}

variable "instance_profile_name" {
  description = "Profile with the controller's role."
  type        = string
}

variable "image_id" {
  description = "Image with systemd, curl and Python 3.11 or newer as python3.11 in its packages, e.g. Amazon Linux 2023. Pinned, so that a new one is a change somebody reads."
  type        = string

  validation {
    condition     = can(regex("^ami-[0-9a-f]{8,17}$", var.image_id))
    error_message = "image_id must look like ami-0123456789abcdef0."
  }
}

variable "instance_type" {
  description = "A small one is enough: the controller needs 1 to 2 GiB."
  type        = string
  default     = "t3.small"
}

variable "package" {
  description = "What pip installs: a wheel's path or URL, or a version, of elastic-capacity."
  type        = string

  validation {
    condition     = can(regex("^[A-Za-z0-9][A-Za-z0-9@:/._+=-]*$", var.package)) && strcontains(var.package, "elastic")
    error_message = "package must be one requirement for pip, e.g. elastic-capacity==0.1.0, without spaces or quotes."
  }
}

variable "ledger_gib" {
  description = "Size of the volume with the ledger."
  type        = number
  default     = 10

  validation {
    condition     = var.ledger_gib >= 5 && var.ledger_gib <= 1000
    error_message = "ledger_gib must be between 5 and 1000."
  }
}

variable "kms_key_arn" {
  description = "Customer key for both volumes. Null: AWS's own key for EBS."
  type        = string
  default     = null
}
