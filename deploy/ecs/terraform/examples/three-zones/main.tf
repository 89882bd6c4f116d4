# Freshet in three availability zones without a NAT gateway. Clients in another network connect to load balancers.

terraform {
  required_version = ">= 1.11"
}

provider "aws" {
  region = "eu-central-1"
}

module "freshet" {
  source = "../.."

  vpc_id = "vpc-0123456789abcdef0"
  zones = [
    { name = "eu-central-1a", subnet_id = "subnet-0123456789abcdef0", cidr = "10.0.1.0/24" },
    { name = "eu-central-1b", subnet_id = "subnet-0123456789abcdef1", cidr = "10.0.2.0/24" },
    { name = "eu-central-1c", subnet_id = "subnet-0123456789abcdef2", cidr = "10.0.3.0/24" },
  ]
  route_table_ids     = ["rtb-0123456789abcdef0"]
  interface_endpoints = true

  client_cidrs = ["10.0.0.0/16", "10.8.0.0/16"]
  client_zones = [
    { cidr = "10.8.1.0/24", zone = "eu-central-1a" },
    { cidr = "10.8.2.0/24", zone = "eu-central-1b" },
  ]
  operator_cidrs = ["10.0.9.0/24"]
  load_balancers = true

  etcd_endpoints         = ["etcd-1.internal:2379", "etcd-2.internal:2379", "etcd-3.internal:2379"]
  etcd_security_group_id = "sg-0123456789abcdef0"

  image              = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/freshet:v1"
  ecr_repository_arn = "arn:aws:ecr:eu-central-1:123456789012:repository/freshet"
  architecture       = "ARM64"
  agent_cpu          = 2048
  agent_memory       = 4096
  drain_seconds      = 30
}

output "bootstrap" {
  value = module.freshet.bootstrap
}

output "bootstrap_by_load_balancers" {
  value = module.freshet.bootstrap_by_load_balancers
}
