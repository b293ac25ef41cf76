output "vpc_id" {
  description = "The VPC, made here or existing."
  value       = var.existing_vpc_id == null ? aws_vpc.this[0].id : var.existing_vpc_id
}

output "subnets" {
  description = "Subnet of nodes by zone: what the controller is told as `subnets`."
  value       = var.existing_vpc_id == null ? { for zone, subnet in aws_subnet.nodes : zone => subnet.id } : var.existing_subnets
}
