terraform {
  required_version = ">= 1.9" # validations that look at two variables

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.90, < 7.0"
    }
  }
}
