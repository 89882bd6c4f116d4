terraform {
  # Since 1.11 write-only arguments keep the keys out of the state.
  required_version = ">= 1.11"

  required_providers {
    # tools/deploy/awscheck.py checks against the schema of 6.25.0.
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.25, < 7.0"
    }
  }
}
