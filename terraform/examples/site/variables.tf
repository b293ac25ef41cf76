variable "account_id" {
  description = "The account to work in."
  type        = string
}

variable "region" {
  description = "The region to rent in."
  type        = string
}

variable "zones" {
  description = "Its zones with the machines you want: `elastic offerings` shows them."
  type        = list(string)
}

variable "owner" {
  description = "Who pays: the tag elastic:owner."
  type        = string
}

variable "controller" {
  description = "Name of this controller: the tag elastic:controller."
  type        = string
}

variable "site_cidrs" {
  description = "The site's networks that talk to nodes."
  type        = list(string)
}

variable "vpn_gateway_id" {
  description = "Virtual private gateway to the site, if there is one."
  type        = string
  default     = null
}

variable "nat" {
  description = "none, single or per-zone."
  type        = string
  default     = "single"
}

variable "images" {
  description = "Image of each burst pool."
  type        = map(string)
}

variable "instance_types" {
  description = "What may be rented at all."
  type        = list(string)
}

variable "cache_bucket" {
  description = "Name of the bucket below the data cache."
  type        = string
}

variable "usd_per_month" {
  description = "What the burst may cost in a month before somebody is told."
  type        = number
}

variable "emails" {
  description = "Who is told."
  type        = list(string)
}

variable "controller_host" {
  description = "Image and package of a host for the controller in AWS. Null: it runs at the site, under one of trusted_principal_arns."
  type        = object({ image_id = string, package = string })
  default     = null
}

variable "trusted_principal_arns" {
  description = "Who may become the controller, when it runs at the site."
  type        = list(string)
  default     = []
}
