output "instance_id" {
  description = "For `aws ssm start-session --target`."
  value       = aws_instance.controller.id
}

output "ledger_volume_id" {
  description = "Volume with the ledger: snapshot it before anything is replaced."
  value       = aws_ebs_volume.ledger.id
}
