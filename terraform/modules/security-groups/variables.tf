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

variable "vpc_id" {
  description = "The VPC of the nodes."
  type        = string
}

variable "site_cidrs" {
  description = "Networks of the site from which schedulers and submit hosts reach nodes, and which nodes may reach. Never the whole internet."
  type        = list(string)

  validation {
    condition     = alltrue([for cidr in var.site_cidrs : can(cidrhost(cidr, 0)) && try(tonumber(split("/", cidr)[1]) >= 8, false)])
    error_message = "site_cidrs must be IPv4 blocks of /8 or smaller: 0.0.0.0/0 would open the nodes to the internet."
  }
}

variable "node_ports" {
  description = "TCP ports of nodes that the site may reach. The defaults are Slurm's: slurmd, and srun's port range."
  type        = map(object({ from = number, to = number }))
  default = {
    slurmd = { from = 6818, to = 6818 }
    srun   = { from = 60001, to = 63000 } # SrunPortRange in slurm.conf must say the same
  }

  validation {
    condition     = alltrue([for port in values(var.node_ports) : port.from >= 1 && port.to <= 65535 && port.from <= port.to])
    error_message = "node_ports must be ranges between 1 and 65535, from not above to."
  }
}
