# Endpoints. Policies are AWS's default, which other processes in the VPC may rely on.
resource "aws_vpc_endpoint" "gateway" {
  count = length(var.route_table_ids) > 0 ? 1 : 0

  vpc_id            = var.vpc_id
  vpc_endpoint_type = "Gateway"
  service_name      = "com.amazonaws.${local.region}.s3"
  route_table_ids   = var.route_table_ids
}

resource "aws_vpc_endpoint" "interface" {
  for_each = toset([for s in concat(
    ["ecr.api", "ecr.dkr", "logs", "secretsmanager"],
    # Of the instances.
    [for s in ["ecs", "ecs-agent", "ecs-telemetry"] : s if var.ec2 != null],
  ) : s if var.interface_endpoints])

  vpc_id              = var.vpc_id
  vpc_endpoint_type   = "Interface"
  service_name        = "com.amazonaws.${local.region}.${each.key}"
  private_dns_enabled = true
  subnet_ids          = var.zones[*].subnet_id
  security_group_ids  = [aws_security_group.endpoints[0].id]
}

# Security groups. DNS, credentials and metadata of tasks need no rule.
resource "aws_security_group" "agents" {
  name_prefix = "${var.name}-agents-"
  description = "Agents of Freshet"
  vpc_id      = var.vpc_id
}

resource "aws_security_group" "control_planes" {
  name_prefix = "${var.name}-controlplanes-"
  description = "Control planes of Freshet"
  vpc_id      = var.vpc_id
}

resource "aws_security_group" "balancers" {
  count = var.load_balancers ? 1 : 0

  name_prefix = "${var.name}-balancers-"
  description = "Load balancers of Freshet"
  vpc_id      = var.vpc_id
}

resource "aws_security_group" "endpoints" {
  count = var.interface_endpoints ? 1 : 0

  name_prefix = "${var.name}-endpoints-"
  description = "Interface endpoints of Freshet"
  vpc_id      = var.vpc_id
}

locals {
  agents    = aws_security_group.agents.id
  planes    = aws_security_group.control_planes.id
  balancers = aws_security_group.balancers[*].id
  endpoints = aws_security_group.endpoints[*].id
  instances = aws_security_group.instances[*].id

  # Rules by name: the group, the ports, and a network or a group at the other end.
  ingress = merge(
    { for c in var.client_cidrs : "agents-clients-${c}" => { of = local.agents, ports = [9092, 9095], cidr = c, group = null, description = "Kafka clients" } },
    { agents-agents = { of = local.agents, ports = [7070, 7070], cidr = null, group = local.agents, description = "agents of the zone" } },
    { for c in var.operator_cidrs : "agents-operators-${c}" => { of = local.agents, ports = [8080, 8080], cidr = c, group = null, description = "operators and monitoring" } },
    merge([for g in local.balancers : {
      agents-balancers = { of = local.agents, ports = [9192, 9195], cidr = null, group = g, description = "load balancers" }
      agents-checks    = { of = local.agents, ports = [8080, 8080], cidr = null, group = g, description = "health checks" }
    }]...),
    {
      planes-agents = { of = local.planes, ports = [7050, 7050], cidr = null, group = local.agents, description = "agents" }
      planes-planes = { of = local.planes, ports = [7050, 7050], cidr = null, group = local.planes, description = "other control planes" }
    },
    { for c in var.operator_cidrs : "planes-operators-${c}" => { of = local.planes, ports = [8090, 8090], cidr = c, group = null, description = "operators and scalers" } },
    merge([for g in local.balancers : {
      for c in var.client_cidrs : "balancers-clients-${c}" => { of = g, ports = [9192, 9195], cidr = c, group = null, description = "Kafka clients" }
    }]...),
    merge([for g in local.endpoints : {
      endpoints-agents = { of = g, ports = [443, 443], cidr = null, group = local.agents, description = "agents" }
      endpoints-planes = { of = g, ports = [443, 443], cidr = null, group = local.planes, description = "control planes" }
    }]...),
    merge([for g in local.instances : {
      for e in local.endpoints : "endpoints-instances" => { of = e, ports = [443, 443], cidr = null, group = g, description = "instances" }
    }]...),
  )
  egress = merge(
    {
      agents-services = { of = local.agents, ports = [443, 443], cidr = "0.0.0.0/0", group = null, description = "S3, the registry, logs and secrets" }
      agents-agents   = { of = local.agents, ports = [7070, 7070], cidr = null, group = local.agents, description = "agents of the zone" }
      agents-planes   = { of = local.agents, ports = [7050, 7050], cidr = null, group = local.planes, description = "control planes" }
      planes-services = { of = local.planes, ports = [443, 443], cidr = "0.0.0.0/0", group = null, description = "S3, the registry, logs and secrets" }
      planes-etcd     = { of = local.planes, ports = [2379, 2379], cidr = "0.0.0.0/0", group = null, description = "etcd" }
      planes-planes   = { of = local.planes, ports = [7050, 7050], cidr = null, group = local.planes, description = "other control planes" }
    },
    merge([for g in local.balancers : {
      balancers-agents = { of = g, ports = [9192, 9195], cidr = null, group = local.agents, description = "agents" }
      balancers-checks = { of = g, ports = [8080, 8080], cidr = null, group = local.agents, description = "health checks" }
    }]...),
    merge([for g in local.instances : {
      instances-services = { of = g, ports = [443, 443], cidr = "0.0.0.0/0", group = null, description = "ECS, the registry, logs and secrets" }
    }]...),
  )
}

resource "aws_vpc_security_group_ingress_rule" "this" {
  for_each = local.ingress

  security_group_id            = each.value.of
  ip_protocol                  = "tcp"
  from_port                    = each.value.ports[0]
  to_port                      = each.value.ports[1]
  cidr_ipv4                    = each.value.cidr
  referenced_security_group_id = each.value.group
  description                  = each.value.description
}

resource "aws_vpc_security_group_egress_rule" "this" {
  for_each = local.egress

  security_group_id            = each.value.of
  ip_protocol                  = "tcp"
  from_port                    = each.value.ports[0]
  to_port                      = each.value.ports[1]
  cidr_ipv4                    = each.value.cidr
  referenced_security_group_id = each.value.group
  description                  = each.value.description
}
