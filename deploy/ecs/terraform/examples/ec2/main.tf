# Freshet in two availability zones, on EC2 instances with Graviton processors.

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
  ]
  client_cidrs = ["10.0.0.0/16"]

  ec2          = { instance_type = "c7g.large" }
  architecture = "ARM64"

  etcd_endpoints       = ["a.freshet-etcd.internal:2379", "b.freshet-etcd.internal:2379", "c.freshet-etcd.internal:2379"]
  etcd_ca_secret_arn   = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:freshet-etcd/ca.crt-AbCdEf"
  etcd_cert_secret_arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:freshet-etcd/client.crt-AbCdEf"
  etcd_key_secret_arn  = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:freshet-etcd/client.key-AbCdEf"

  image = "registry.example.com/freshet:v1"
}

output "bootstrap" {
  value = module.freshet.bootstrap
}
