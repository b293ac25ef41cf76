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
  name   = "elastic-test"
  owner  = "desk"
  images = { burst = "ami-0a1b2c3d4e5f60718" }
  settings = {
    subnets            = { us-east-1a = "subnet-0123456789abcdef0" }
    security_group_ids = ["sg-0123456789abcdef0"]
    instance_profile   = "elastic-test-node"
    queue_url          = "https://sqs.us-east-1.amazonaws.com/123456789012/elastic-test-events"
  }
}

run "an_image_is_named_by_its_parameter" {
  command = plan

  assert {
    condition     = output.image_ids.burst == "resolve:ssm:/elastic/base/elastic-test/images/burst"
    error_message = "EC2 resolves the parameter at launch"
  }
  assert {
    condition     = aws_ssm_parameter.image["burst"].data_type == "aws:ec2:image"
    error_message = "AWS checks images only with this data type"
  }
  assert {
    condition     = jsondecode(aws_ssm_parameter.settings.value).root_volume_gib == 200
    error_message = "defaults are written out"
  }
}

run "an_image_that_is_no_id_is_refused" {
  command = plan

  variables {
    images = { burst = "latest" }
  }

  expect_failures = [var.images]
}
