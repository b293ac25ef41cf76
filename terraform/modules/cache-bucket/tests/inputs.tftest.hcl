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
  bucket = "desk-elastic-cache"
}

run "private_and_encrypted_without_being_asked" {
  command = plan

  assert {
    condition     = aws_s3_bucket_public_access_block.cache.restrict_public_buckets && aws_s3_bucket_public_access_block.cache.block_public_policy
    error_message = "nothing public"
  }
  assert {
    condition     = length(aws_s3_bucket_lifecycle_configuration.cache.rule) == 1 && length(aws_s3_bucket_lifecycle_configuration.cache.rule[0].expiration) == 0
    error_message = "data never expires unless a prefix is named"
  }
}

run "a_scratch_prefix_expires" {
  command = plan

  variables {
    expire_prefix_days = { "scratch/" = 14 }
  }

  assert {
    condition     = aws_s3_bucket_lifecycle_configuration.cache.rule[1].expiration[0].days == 14
    error_message = "the prefix has its rule"
  }
}

run "the_whole_bucket_cannot_expire" {
  command = plan

  variables {
    expire_prefix_days = { "/" = 14 }
  }

  expect_failures = [var.expire_prefix_days]
}
