resource "aws_iam_role" "control_plane" {
  name_prefix        = "${var.name}-controlplane-"
  assume_role_policy = local.assume
}

resource "aws_iam_role_policy" "control_plane" {
  name = "records"
  role = aws_iam_role.control_plane.name
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect   = "Allow"
        Action   = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"]
        Resource = "${local.state_bucket_arn}/${var.prefix}/*"
      },
      # IfExists: HEAD of the bucket, and 404 for an absent object, need the right without a prefix.
      {
        Effect    = "Allow"
        Action    = "s3:ListBucket"
        Resource  = local.state_bucket_arn
        Condition = { StringLikeIfExists = { "s3:prefix" = "${var.prefix}/*" } }
      },
    ]
  })
}

locals {
  key_variables = { agent = "FRESHET_AGENT_KEY", operator = "FRESHET_OPERATOR_KEY", read-only = "FRESHET_READ_ONLY_KEY" }
  etcd_secrets = { for name, arn in {
    FRESHET_ETCD_TLS_CA   = var.etcd_ca_secret_arn
    FRESHET_ETCD_TLS_CERT = var.etcd_cert_secret_arn
    FRESHET_ETCD_TLS_KEY  = var.etcd_key_secret_arn
  } : name => arn if arn != null }

  # --replica-id is the task's host name: an upgrade of the metadata's state waits 10 minutes for the names of the old tasks to expire.
  control_plane_environment = merge({
    FRESHET_ETCD            = join(",", var.etcd_endpoints)
    FRESHET_ETCD_TLS        = tostring(var.etcd_tls)
    FRESHET_VIRTUAL_CLUSTER = var.virtual_cluster
    FRESHET_LOG_FORMAT      = "json"

    (var.state_bucket == null ? "FRESHET_BUCKET" : "FRESHET_STATE_BUCKET") = local.state_bucket_url
  }, var.control_plane_environment)
}

resource "aws_ecs_task_definition" "control_plane" {
  family                   = "${var.name}-controlplane"
  requires_compatibilities = [local.launch_type]
  network_mode             = "awsvpc"
  cpu                      = var.control_plane_cpu
  memory                   = var.control_plane_memory
  execution_role_arn       = aws_iam_role.execution.arn
  task_role_arn            = aws_iam_role.control_plane.arn
  # A roll-back needs the old revision.
  skip_destroy = true

  dynamic "runtime_platform" {
    for_each = var.ec2 == null ? [1] : []

    content {
      cpu_architecture        = var.architecture
      operating_system_family = "LINUX"
    }
  }

  container_definitions = jsonencode([{
    name    = "controlplane"
    image   = var.image
    command = ["controlplane"]
    # Nine tenths of it are --memory-limit.
    memory                 = var.control_plane_memory
    readonlyRootFilesystem = true
    linuxParameters        = { capabilities = { drop = ["ALL"] } }
    ulimits                = [{ name = "nofile", softLimit = 65536, hardLimit = 65536 }]
    portMappings           = [for p in [7050, 8090] : { containerPort = p }]
    environment            = [for k, v in local.control_plane_environment : { name = k, value = v }]
    secrets = concat(
      [for kind, arn in local.keys : { name = local.key_variables[kind], valueFrom = arn }],
      [for name, arn in local.etcd_secrets : { name = name, valueFrom = arn }],
    )
    # /startedz passes once /readyz has passed: a roll-out waits for it, and a later outage of etcd or the bucket ends no task.
    healthCheck = {
      command     = ["CMD", "/freshet", "health", "http://127.0.0.1:8090/startedz"]
      interval    = 5
      timeout     = 4
      retries     = 10
      startPeriod = 120
    }
    stopTimeout = 30
    logConfiguration = {
      logDriver = "awslogs"
      options = {
        "awslogs-group"         = aws_cloudwatch_log_group.this.name
        "awslogs-region"        = local.region
        "awslogs-stream-prefix" = "controlplane"
        "mode"                  = "non-blocking"
      }
    }
  }])
}

resource "aws_ecs_service" "control_plane" {
  name            = "controlplane"
  cluster         = aws_ecs_cluster.this.arn
  task_definition = aws_ecs_task_definition.control_plane.arn
  launch_type     = var.ec2 == null ? "FARGATE" : null
  desired_count   = 2
  # Agents start after ready control planes.
  wait_for_steady_state = true

  deployment_minimum_healthy_percent = 100
  deployment_maximum_percent         = 200

  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }

  dynamic "capacity_provider_strategy" {
    for_each = var.ec2 == null ? [] : [for z in var.zones : aws_ecs_capacity_provider.zone[z.name].name]

    content {
      capacity_provider = capacity_provider_strategy.value
      weight            = 1
    }
  }

  dynamic "placement_constraints" {
    for_each = var.ec2 == null ? [] : ["distinctInstance"]

    content {
      type = placement_constraints.value
    }
  }

  network_configuration {
    subnets         = var.zones[*].subnet_id
    security_groups = compact([aws_security_group.control_planes.id, var.etcd_security_group_id])
  }

  service_registries {
    registry_arn = aws_service_discovery_service.control_plane.arn
  }

  # Tasks start after all that they use.
  depends_on = [
    aws_ecs_cluster_capacity_providers.this,
    aws_iam_role_policy.control_plane,
    aws_iam_role_policy.execution,
    aws_iam_role_policy_attachment.instance,
    aws_s3_bucket_public_access_block.records,
    aws_secretsmanager_secret_version.key,
    aws_vpc_endpoint.gateway,
    aws_vpc_endpoint.interface,
    aws_vpc_security_group_egress_rule.this,
    aws_vpc_security_group_ingress_rule.this,
  ]
}
