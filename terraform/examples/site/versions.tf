terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.90, < 7.0"
    }
  }

  # State holds no secret, but whoever can write it can change what is applied next: keep it in a private bucket.
  # backend "s3" {
  #   bucket       = "YOUR-STATE-BUCKET"
  #   key          = "elastic/site.tfstate"
  #   region       = "eu-central-1"
  #   use_lockfile = true
  #   encrypt      = true
  # }
}

provider "aws" {
  region              = var.region
  allowed_account_ids = [var.account_id] # a wrong profile stops here
}
