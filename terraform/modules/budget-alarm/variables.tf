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

variable "usd_per_month" {
  description = "What the burst may cost in a month."
  type        = number

  validation {
    condition     = var.usd_per_month > 0
    error_message = "usd_per_month must be above 0."
  }
}

variable "emails" {
  description = "Who is told. AWS Budgets takes at most 10."
  type        = list(string)
  default     = []

  validation {
    condition     = length(var.emails) <= 10 && alltrue([for email in var.emails : can(regex("^[^@ ]+@[^@ ]+$", email))])
    error_message = "emails must be at most 10 addresses."
  }
}

variable "warn_at_percent" {
  description = "Shares of the budget, already spent, at which to tell. A forecast above 100 % is always told."
  type        = list(number)
  default     = [50, 80, 100]

  validation {
    condition     = length(var.warn_at_percent) >= 1 && length(var.warn_at_percent) <= 4 && alltrue([for share in var.warn_at_percent : share > 0])
    error_message = "warn_at_percent must be 1 to 4 numbers above 0 (a budget has at most 5 notifications)."
  }
}
