resource "aws_iam_role" "agent" {
  name_prefix        = "${var.name}-agent-"
  assume_role_policy = local.assume
}

resource "aws_iam_role_policy" "agent" {
  name = "records"
  role = aws_iam_role.agent.name
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect   = "Allow"
        Action   = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]
        Resource = "${local.bucket_arn}/${var.prefix}/*"
      },
      # IfExists: HEAD of the bucket, and 404 for an absent object, need the right without a prefix.
      {
        Effect    = "Allow"
        Action    = "s3:ListBucket"
        Resource  = local.bucket_arn
        Condition = { StringLikeIfExists = { "s3:prefix" = "${var.prefix}/*" } }
      },
      # The action has no condition for the prefix.
      { Effect = "Allow", Action = "s3:ListBucketMultipartUploads", Resource = local.bucket_arn },
    ]
  })
}

locals {
  agent_environment = merge(
    {
      FRESHET_CONTROL_PLANE = "controlplane.${var.namespace}:7050"
      FRESHET_BUCKET        = local.bucket_url
      FRESHET_KAFKA_LISTEN  = var.load_balancers ? ":9092-9095,external=:9192-9195" : ":9092-9095"
      FRESHET_ADVERTISE     = "{ip}"
      FRESHET_CLIENT_ZONES = join(",", concat(
        [for z in var.zones : "${z.cidr}=${z.name}"],
        [for c in var.client_zones : "${c.cidr}=${c.zone}"],
      ))
      FRESHET_DRAIN_TIMEOUT = "${var.drain_seconds}s"
      FRESHET_LOG_FORMAT    = "json"
    },
    !var.load_balancers ? {} : {
      FRESHET_SHARED_ADVERTISE = join(",", [for z in var.zones : "external/${z.name}=${aws_lb.zone[z.name].dns_name}:9192-9195"])
    },
    var.agent_environment,
  )
}

resource "aws_ecs_task_definition" "agent" {
  for_each = local.zones

  family                   = "${var.name}-agent-${each.key}"
  requires_compatibilities = [local.launch_type]
  network_mode             = "awsvpc"
  cpu                      = var.agent_cpu
  memory                   = var.agent_memory
  execution_role_arn       = aws_iam_role.execution.arn
  task_role_arn            = aws_iam_role.agent.arn
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
    name    = "agent"
    image   = var.image
    command = ["agent"]
    # Nine tenths of it are --memory-limit.
    memory                 = var.agent_memory
    readonlyRootFilesystem = true
    linuxParameters        = { capabilities = { drop = ["ALL"] } }
    ulimits                = [{ name = "nofile", softLimit = 1048576, hardLimit = 1048576 }]
    portMappings           = [for p in [9092, 9093, 9094, 9095, 9192, 9193, 9194, 9195, 7070, 8080] : { containerPort = p }]
    environment            = [for k, v in merge(local.agent_environment, { FRESHET_ZONE = each.key }) : { name = k, value = v }]
    secrets                = [{ name = "FRESHET_AGENT_KEY", valueFrom = local.keys["agent"] }]
    healthCheck = {
      command     = ["CMD", "/freshet", "health", "http://127.0.0.1:8080/readyz"]
      interval    = 5
      timeout     = 4
      retries     = 6
      startPeriod = 60
    }
    stopTimeout = coalesce(var.stop_timeout_seconds, var.drain_seconds + 10)
    logConfiguration = {
      logDriver = "awslogs"
      options = {
        "awslogs-group"         = aws_cloudwatch_log_group.this.name
        "awslogs-region"        = local.region
        "awslogs-stream-prefix" = "agent"
        "mode"                  = "non-blocking"
      }
    }
  }])
}

resource "aws_ecs_service" "agents" {
  for_each = local.zones

  name                  = "agent-${each.key}"
  cluster               = aws_ecs_cluster.this.arn
  task_definition       = aws_ecs_task_definition.agent[each.key].arn
  launch_type           = var.ec2 == null ? "FARGATE" : null
  desired_count         = 1
  wait_for_steady_state = true

  deployment_minimum_healthy_percent = 100
  deployment_maximum_percent         = 200
  health_check_grace_period_seconds  = var.load_balancers ? 60 : null

  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }

  dynamic "capacity_provider_strategy" {
    for_each = var.ec2 == null ? [] : [aws_ecs_capacity_provider.zone[each.key].name]

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
    subnets         = [each.value.subnet_id]
    security_groups = [aws_security_group.agents.id]
  }

  service_registries {
    registry_arn = aws_service_discovery_service.agents[each.key].arn
  }

  dynamic "load_balancer" {
    for_each = [for p in range(9192, 9196) : p if var.load_balancers]

    content {
      container_name   = "agent"
      container_port   = load_balancer.value
      target_group_arn = aws_lb_target_group.agents["${each.key}-${load_balancer.value}"].arn
    }
  }

  lifecycle {
    # Updates keep the count that `aws ecs update-service` or a scaler has set.
    ignore_changes = [desired_count]
  }

  # ECS takes a target group that has a listener.
  depends_on = [
    aws_ecs_service.control_plane,
    aws_iam_role_policy.agent,
    aws_lb_listener.agents,
  ]
}
