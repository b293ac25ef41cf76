# Runs without an account: `terraform init && terraform test`.
mock_provider "aws" {
  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }
  mock_data "aws_region" {
    defaults = { id = "us-east-1" }
  }
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
}

variables {
  name                  = "elastic-test"
  owner                 = "desk"
  zone                  = "us-east-1a"
  subnet_id             = "subnet-0123456789abcdef0"
  security_group_id     = "sg-0123456789abcdef0"
  instance_profile_name = "elastic-test-controller"
  image_id              = "ami-0f9e8d7c6b5a43210"
  package               = "elastic-capacity==0.1.0"
}

run "closed_and_encrypted" {
  command = plan

  assert {
    condition     = aws_instance.controller.metadata_options[0].http_tokens == "required"
    error_message = "metadata only with a token"
  }
  assert {
    condition     = aws_instance.controller.root_block_device[0].encrypted && aws_ebs_volume.ledger.encrypted
    error_message = "both volumes are encrypted"
  }
  assert {
    condition     = !aws_instance.controller.associate_public_ip_address
    error_message = "no public address"
  }
}

run "a_command_in_place_of_a_package_is_refused" {
  command = plan

  variables {
    package = "elastic; curl x"
  }

  expect_failures = [var.package]
}

run "an_image_that_is_no_id_is_refused" {
  command = plan

  variables {
    image_id = "resolve:ssm:/aws/service/al2023"
  }

  expect_failures = [var.image_id]
}
