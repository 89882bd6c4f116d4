variable "name" {
  description = "Name of the ECS cluster, and prefix of other names. Two clusters in one region need two names."
  type        = string
  default     = "freshet"

  validation {
    condition     = can(regex("^[A-Za-z][A-Za-z0-9-]{0,23}$", var.name))
    error_message = "name must be a letter and up to 23 letters, digits and hyphens."
  }
}

# Network.

variable "vpc_id" {
  description = "VPC of the subnets. It needs DNS support and DNS host names."
  type        = string
}

variable "zones" {
  description = "Availability zones of agents: the name, as eu-central-1a, and the ID and CIDR of the subnet of the zone's tasks. Clients with addresses in the CIDR are clients of the zone."
  type = list(object({
    name      = string
    subnet_id = string
    cidr      = string
  }))

  validation {
    condition     = length(var.zones) > 0
    error_message = "zones must have at least one zone."
  }
  validation {
    condition     = length(distinct(var.zones[*].name)) == length(var.zones)
    error_message = "zones must have one subnet for each zone: a name is there twice."
  }
  validation {
    condition     = length(distinct(var.zones[*].subnet_id)) == length(var.zones)
    error_message = "zones must have a subnet of its own for each zone: a subnet is there twice."
  }
  validation {
    condition     = alltrue([for z in var.zones : can(regex("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", z.name))])
    error_message = "zones: name must be an availability zone, as eu-central-1a."
  }
  validation {
    condition     = alltrue([for z in var.zones : try(cidrnetmask(z.cidr) != "" && cidrsubnet(z.cidr, 0, 0) == z.cidr, false)])
    error_message = "zones: cidr must be an IPv4 network, as 10.0.1.0/24."
  }
}

variable "route_table_ids" {
  description = "Route tables of the subnets, for a gateway endpoint of S3. Empty if the VPC has the endpoint."
  type        = list(string)
  default     = []
}

variable "interface_endpoints" {
  description = "Whether to make interface endpoints of ECR, CloudWatch Logs and Secrets Manager. false if the subnets route to a NAT gateway or have endpoints."
  type        = bool
  default     = false
}

# Clients and operators.

variable "client_cidrs" {
  description = "Networks of Kafka clients, as 10.0.0.0/16. They reach ports 9092 to 9095 of agents."
  type        = list(string)

  validation {
    condition     = length(var.client_cidrs) > 0
    error_message = "client_cidrs must have at least one network."
  }
  validation {
    condition     = alltrue([for c in var.client_cidrs : try(cidrnetmask(c) != "" && cidrsubnet(c, 0, 0) == c, false)])
    error_message = "client_cidrs must be IPv4 networks, as 10.0.0.0/16."
  }
}

variable "client_zones" {
  description = "Zones of clients in networks other than those of zones."
  type = list(object({
    cidr = string
    zone = string
  }))
  default = []

  validation {
    condition     = alltrue([for c in var.client_zones : try(cidrnetmask(c.cidr) != "" && cidrsubnet(c.cidr, 0, 0) == c.cidr, false)])
    error_message = "client_zones: cidr must be an IPv4 network, as 10.0.11.0/24."
  }
  validation {
    condition     = alltrue([for c in var.client_zones : can(regex("^[a-z0-9-]+$", c.zone))])
    error_message = "client_zones: zone must be an availability zone, as eu-central-1a."
  }
}

variable "operator_cidrs" {
  description = "Networks of operators, monitoring and scalers. They reach the HTTP ports 8090 of control planes and 8080 of agents."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for c in var.operator_cidrs : try(cidrnetmask(c) != "" && cidrsubnet(c, 0, 0) == c, false)])
    error_message = "operator_cidrs must be IPv4 networks, as 10.0.9.0/24."
  }
}

variable "load_balancers" {
  description = "Whether to make a Network Load Balancer per zone, for clients that cannot reach the agents' addresses."
  type        = bool
  default     = false
}

variable "namespace" {
  description = "Private DNS domain, in the VPC. Two clusters in one VPC need two domains."
  type        = string
  default     = "freshet.internal"

  validation {
    condition     = can(regex("^[a-z0-9-]+(\\.[a-z0-9-]+)*$", var.namespace))
    error_message = "namespace must be a DNS domain, as freshet.internal."
  }
}

# Program.

variable "image" {
  description = "Image of Freshet, as 123456789012.dkr.ecr.eu-central-1.amazonaws.com/freshet:v1."
  type        = string

  validation {
    condition     = can(regex("^\\S+$", var.image))
    error_message = "image must be the name of an image."
  }
}

variable "ecr_repository_arn" {
  description = "ARN of the repository of image in ECR. null for a public registry."
  type        = string
  default     = null
}

variable "ec2" {
  description = "EC2 instances for the tasks: the type, as c7i.large, the greatest number in a zone, and the percentage that is in use. null for Fargate. A cluster cannot change between the two."
  type = object({
    instance_type   = string
    max_instances   = optional(number, 20)
    target_capacity = optional(number, 100)
  })
  default = null

  validation {
    condition     = can(regex("^[a-z0-9-]+\\.[a-z0-9-]+$", var.ec2 == null ? "c7i.large" : var.ec2.instance_type))
    error_message = "ec2: instance_type must be an instance type, as c7i.large."
  }
  validation {
    condition     = try(var.ec2.max_instances, 20) >= 2 && try(var.ec2.max_instances, 20) <= 1000
    error_message = "ec2: max_instances must be from 2 to 1000."
  }
  validation {
    condition     = try(var.ec2.target_capacity, 100) >= 1 && try(var.ec2.target_capacity, 100) <= 100
    error_message = "ec2: target_capacity must be from 1 to 100."
  }
}

variable "architecture" {
  description = "Architecture of the tasks, and of instance_type: X86_64 or ARM64. The image has both."
  type        = string
  default     = "X86_64"

  validation {
    condition     = contains(["X86_64", "ARM64"], var.architecture)
    error_message = "architecture must be X86_64 or ARM64."
  }
}

variable "agent_cpu" {
  description = "CPU units of an agent."
  type        = number
  default     = 1024

  validation {
    condition     = contains([512, 1024, 2048, 4096, 8192, 16384], var.agent_cpu)
    error_message = "agent_cpu must be 512, 1024, 2048, 4096, 8192 or 16384."
  }
}

variable "agent_memory" {
  description = "Memory of an agent in MiB. Fargate has a list of values for each number of CPU units."
  type        = number
  default     = 2048

  validation {
    condition     = var.agent_memory >= 1024 && var.agent_memory <= 122880
    error_message = "agent_memory must be from 1024 to 122880."
  }
}

variable "drain_seconds" {
  description = "Seconds that an agent may take after SIGTERM to hand its clients over and to commit their records."
  type        = number
  default     = 10

  validation {
    condition     = var.drain_seconds >= 5 && var.drain_seconds <= 110 && floor(var.drain_seconds) == var.drain_seconds
    error_message = "drain_seconds must be a whole number from 5 to 110: Fargate stops a task after at most 120 s."
  }
}

variable "stop_timeout_seconds" {
  description = "Seconds after which ECS kills an agent that got SIGTERM. null for 10 more than drain_seconds."
  type        = number
  default     = null

  # The program ends within 2 s of its drain.
  validation {
    condition     = coalesce(var.stop_timeout_seconds, var.drain_seconds + 10) >= var.drain_seconds + 2 && coalesce(var.stop_timeout_seconds, 120) <= 120
    error_message = "stop_timeout_seconds must be at least 2 more than drain_seconds, and at most 120."
  }
}

variable "agent_environment" {
  description = "Further settings of agents by variable, as { FRESHET_LOG_LEVEL = \"debug\" }. A setting here replaces the module's."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for k in keys(var.agent_environment) : startswith(k, "FRESHET_") && k != "FRESHET_AGENT_KEY"])
    error_message = "agent_environment must have names that start with FRESHET_, without FRESHET_AGENT_KEY: agent_key_secret_arn names the key."
  }
  validation {
    condition     = !contains(keys(var.agent_environment), "FRESHET_DRAIN_TIMEOUT") && !contains(keys(var.agent_environment), "FRESHET_ZONE")
    error_message = "agent_environment must not set FRESHET_DRAIN_TIMEOUT and FRESHET_ZONE: drain_seconds and zones do."
  }
}

variable "control_plane_cpu" {
  description = "CPU units of a control plane."
  type        = number
  default     = 512

  validation {
    condition     = contains([256, 512, 1024, 2048, 4096, 8192], var.control_plane_cpu)
    error_message = "control_plane_cpu must be 256, 512, 1024, 2048, 4096 or 8192."
  }
}

variable "control_plane_memory" {
  description = "Memory of a control plane in MiB."
  type        = number
  default     = 1024

  validation {
    condition     = var.control_plane_memory >= 512 && var.control_plane_memory <= 61440
    error_message = "control_plane_memory must be from 512 to 61440."
  }
}

variable "control_plane_environment" {
  description = "Further settings of control planes by variable. A setting here replaces the module's."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for k in keys(var.control_plane_environment) : startswith(k, "FRESHET_") && !contains(["FRESHET_AGENT_KEY", "FRESHET_OPERATOR_KEY", "FRESHET_READ_ONLY_KEY"], k)])
    error_message = "control_plane_environment must have names that start with FRESHET_, and no key: agent_key_secret_arn, operator_key_secret_arn and read_only_key_secret_arn name these."
  }
}

variable "virtual_cluster" {
  description = "Name of the virtual cluster. It cannot change later."
  type        = string
  default     = "main"

  validation {
    condition     = can(regex("^[A-Za-z0-9._-]{1,249}$", var.virtual_cluster))
    error_message = "virtual_cluster must be up to 249 letters, digits, dots, underscores and hyphens."
  }
}

variable "agent_key_secret_arn" {
  description = "Secret with the key by which agents authenticate to control planes, encrypted by AWS's key of Secrets Manager. The secret must exist before the plan. null for a generated one."
  type        = string
  default     = null
}

variable "operator_key_secret_arn" {
  description = "Secret with the key of operators, as agent_key_secret_arn."
  type        = string
  default     = null
}

variable "read_only_key_secret_arn" {
  description = "Secret with the key by which scalers read the load, as agent_key_secret_arn."
  type        = string
  default     = null
}

variable "log_retention_days" {
  description = "Days that CloudWatch keeps logs."
  type        = number
  default     = 30

  validation {
    condition     = contains([1, 3, 7, 14, 30, 90, 180, 365], var.log_retention_days)
    error_message = "log_retention_days must be 1, 3, 7, 14, 30, 90, 180 or 365."
  }
}

# Storage.

variable "bucket" {
  description = "Name of a bucket in the region, which must exist before the plan. null for one that the module makes."
  type        = string
  default     = null

  validation {
    condition     = var.bucket == null || can(regex("^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", var.bucket))
    error_message = "bucket must be the name of a bucket, or null."
  }
}

variable "state_bucket" {
  description = "Name of another bucket in the region, for the objects of control planes, which have no rights in bucket then. null for bucket."
  type        = string
  default     = null

  validation {
    condition     = var.state_bucket == null || can(regex("^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", var.state_bucket))
    error_message = "state_bucket must be the name of a bucket, or null."
  }
  validation {
    condition     = var.state_bucket == null || var.state_bucket != var.bucket
    error_message = "state_bucket and bucket must be two buckets."
  }
}

variable "prefix" {
  description = "Prefix of all objects. It cannot change later."
  type        = string
  default     = "freshet"

  validation {
    condition     = can(regex("^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$", var.prefix))
    error_message = "prefix must be names with slashes between them, as team/freshet."
  }
}

variable "bucket_options" {
  description = "Further options of the URLs of buckets, as &endpoint=http://10.0.0.9:9000&path-style=true for a stand-in of S3. No keys: task definitions show them."
  type        = string
  default     = ""

  validation {
    condition     = can(regex("^(&\\S+)?$", var.bucket_options))
    error_message = "bucket_options must start with &."
  }
}

variable "etcd_endpoints" {
  description = "Members of an etcd cluster that is Freshet's alone, as [\"etcd-1.internal:2379\", \"etcd-2.internal:2379\", \"etcd-3.internal:2379\"]."
  type        = list(string)

  validation {
    condition     = length(var.etcd_endpoints) > 0 && alltrue([for e in var.etcd_endpoints : can(regex("^[A-Za-z0-9.-]+:2379$", e))])
    error_message = "etcd_endpoints must have at least one member, each with port 2379, as etcd-1.internal:2379."
  }
}

variable "etcd_tls" {
  description = "Whether etcd has TLS."
  type        = bool
  default     = true
}

variable "etcd_ca_secret_arn" {
  description = "Secret with the PEM text of the authority of etcd's certificates. null for a public authority."
  type        = string
  default     = null
}

variable "etcd_cert_secret_arn" {
  description = "Secret with the certificate that control planes show to etcd. Its secrets, and those below, are encrypted by AWS's key of Secrets Manager. null for none."
  type        = string
  default     = null
}

variable "etcd_key_secret_arn" {
  description = "Secret with the key of the certificate in etcd_cert_secret_arn. null for none."
  type        = string
  default     = null

  validation {
    condition     = (var.etcd_cert_secret_arn == null) == (var.etcd_key_secret_arn == null)
    error_message = "etcd_cert_secret_arn and etcd_key_secret_arn belong together."
  }
}

variable "etcd_security_group_id" {
  description = "Security group that the etcd members admit at port 2379. Control planes join it. null if they admit the subnets."
  type        = string
  default     = null
}
