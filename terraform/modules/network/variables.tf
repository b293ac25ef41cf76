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

variable "zones" {
  description = "Availability zones to have a subnet in; more zones find more spot capacity. Append only: a zone's place in the list decides its addresses. Not used with an existing VPC."
  type        = list(string)
  default     = []

  validation {
    condition     = length(var.zones) <= 8 && length(var.zones) == length(distinct(var.zones))
    error_message = "zones must be at most 8 different zones."
  }

  validation {
    condition     = var.existing_vpc_id != null || length(var.zones) > 0
    error_message = "zones must name at least one zone unless existing_vpc_id is given."
  }
}

variable "cidr" {
  description = "Addresses of the VPC; they must not overlap the site's own networks. Each zone gets a sixteenth."
  type        = string
  default     = "10.64.0.0/16"

  validation {
    condition     = can(cidrhost(var.cidr, 0)) && try(tonumber(split("/", var.cidr)[1]) >= 16 && tonumber(split("/", var.cidr)[1]) <= 20, false)
    error_message = "cidr must be an IPv4 block between /16 and /20."
  }
}

variable "existing_vpc_id" {
  description = "Use this VPC and make none. Null makes one."
  type        = string
  default     = null

  validation {
    condition     = var.existing_vpc_id == null || can(regex("^vpc-[0-9a-f]+$", var.existing_vpc_id))
    error_message = "existing_vpc_id must look like vpc-0123456789abcdef0."
  }
}

variable "existing_subnets" {
  description = "With an existing VPC: its private subnets for nodes, by zone."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for id in values(var.existing_subnets) : can(regex("^subnet-[0-9a-f]+$", id))])
    error_message = "existing_subnets must map zones to ids like subnet-0123456789abcdef0."
  }

  validation {
    condition     = (var.existing_vpc_id == null) == (length(var.existing_subnets) == 0)
    error_message = "existing_subnets and existing_vpc_id go together: give both or neither."
  }
}

variable "nat" {
  description = "How nodes reach the internet: none (over the site's VPN), single (one NAT gateway; other zones pay for traffic between zones) or per-zone."
  type        = string
  default     = "none"

  validation {
    condition     = contains(["none", "single", "per-zone"], var.nat)
    error_message = "nat must be none, single or per-zone."
  }
}

variable "vpn_gateway_id" {
  description = "Virtual private gateway of the VPN or Direct Connect to the site: attached, and its routes go to every node subnet. Null: none."
  type        = string
  default     = null

  validation {
    condition     = var.vpn_gateway_id == null || can(regex("^vgw-[0-9a-f]+$", var.vpn_gateway_id))
    error_message = "vpn_gateway_id must look like vgw-0123456789abcdef0."
  }
}
