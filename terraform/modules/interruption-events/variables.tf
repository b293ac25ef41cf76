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

variable "retention_s" {
  description = "How long an unread message is kept. A notice is old after two minutes; a day leaves something to look at after an outage."
  type        = number
  default     = 86400

  validation {
    condition     = var.retention_s >= 300 && var.retention_s <= 1209600
    error_message = "retention_s must be between 300 (5 min) and 1209600 (14 days)."
  }
}

variable "visibility_timeout_s" {
  description = "How long a received message stays hidden: longer than the controller takes to record its effect."
  type        = number
  default     = 60

  validation {
    condition     = var.visibility_timeout_s >= 10 && var.visibility_timeout_s <= 600
    error_message = "visibility_timeout_s must be between 10 and 600."
  }
}

variable "most_receives" {
  description = "After so many deliveries without a deletion a message goes to the dead-letter queue."
  type        = number
  default     = 5

  validation {
    condition     = var.most_receives >= 2 && var.most_receives <= 100
    error_message = "most_receives must be between 2 and 100."
  }
}
