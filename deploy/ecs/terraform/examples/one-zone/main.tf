# Freshet in one availability zone, for clients in the VPC.

terraform {
  required_version = ">= 1.11"
}

provider "aws" {
  region = "eu-central-1"
}

module "freshet" {
  source = "../.."

  vpc_id         = "vpc-0123456789abcdef0"
  zones          = [{ name = "eu-central-1a", subnet_id = "subnet-0123456789abcdef0", cidr = "10.0.1.0/24" }]
  client_cidrs   = ["10.0.0.0/16"]
  etcd_endpoints = ["etcd-1.internal:2379", "etcd-2.internal:2379", "etcd-3.internal:2379"]
  image          = "registry.example.com/freshet:v1"
}

output "bootstrap" {
  value = module.freshet.bootstrap
}
