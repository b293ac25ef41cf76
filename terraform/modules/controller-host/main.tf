# The machine the controller runs on: one, small, without a way in. It rents nothing when it comes up: the service waits
# for a policy at /etc/elastic/policy.yaml. The ledger lies on a volume of its own that outlives the machine.

locals {
  # The border: what carries this tag is Terraform's, and the controller never touches it.
  tags = merge(var.tags, { "elastic:made-by" = "terraform", "elastic:owner" = var.owner })

  volume_name = "/dev/sdf" # what EC2 calls it; the machine finds it by its serial number
}

resource "aws_ebs_volume" "ledger" {
  availability_zone = var.zone
  size              = var.ledger_gib
  type              = "gp3"
  encrypted         = true
  kms_key_id        = var.kms_key_arn
  tags              = merge(local.tags, { Name = "${var.name}-ledger" })
}

resource "aws_instance" "controller" {
  ami                         = var.image_id
  instance_type               = var.instance_type
  subnet_id                   = var.subnet_id
  vpc_security_group_ids      = [var.security_group_id]
  iam_instance_profile        = var.instance_profile_name
  associate_public_ip_address = false
  ebs_optimized               = true
  user_data_replace_on_change = true
  tags                        = merge(local.tags, { Name = "${var.name}-controller" })

  user_data = templatefile("${path.module}/user-data.sh.tftpl", {
    package = var.package
    serial  = replace(aws_ebs_volume.ledger.id, "-", "")
    unit    = file("${path.module}/elastic.service")
  })

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  root_block_device {
    encrypted   = true
    kms_key_id  = var.kms_key_arn
    volume_type = "gp3"
    volume_size = 20
    tags        = merge(local.tags, { Name = "${var.name}-controller" })
  }
}

resource "aws_volume_attachment" "ledger" {
  device_name                    = local.volume_name
  volume_id                      = aws_ebs_volume.ledger.id
  instance_id                    = aws_instance.controller.id
  stop_instance_before_detaching = true # a ledger is not pulled from under a running controller
}
