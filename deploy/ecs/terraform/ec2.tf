# EC2 instances for the tasks. Without var.ec2 there are none, and Fargate runs the tasks.

locals {
  # A group for each zone, because a service is of one zone: a group of several zones would start instances in any of them.
  instance_zones = { for name, z in local.zones : name => z if var.ec2 != null }
}

# Instances connect to ECS, the registry, logs and secrets. Tasks have network interfaces and security groups of their own.
resource "aws_security_group" "instances" {
  count = var.ec2 == null ? 0 : 1

  name_prefix = "${var.name}-instances-"
  description = "EC2 instances of Freshet"
  vpc_id      = var.vpc_id
}

# Rights of the container agent. Tasks have roles of their own, and cannot reach this one.
resource "aws_iam_role" "instance" {
  count = var.ec2 == null ? 0 : 1

  name_prefix = "${var.name}-instance-"
  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Principal = { Service = "ec2.amazonaws.com" }, Action = "sts:AssumeRole" }]
  })
}

resource "aws_iam_role_policy_attachment" "instance" {
  count = var.ec2 == null ? 0 : 1

  role       = aws_iam_role.instance[0].name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/service-role/AmazonEC2ContainerServiceforEC2Role"
}

resource "aws_iam_instance_profile" "this" {
  count = var.ec2 == null ? 0 : 1

  name_prefix = "${var.name}-instance-"
  role        = aws_iam_role.instance[0].name
}

resource "aws_launch_template" "this" {
  count = var.ec2 == null ? 0 : 1

  name_prefix = "${var.name}-"
  # EC2 resolves the parameter at each launch, so that a new instance has the latest image of ECS.
  image_id      = "resolve:ssm:/aws/service/ecs/optimized-ami/amazon-linux-2023/${var.architecture == "ARM64" ? "arm64/" : ""}recommended/image_id"
  instance_type = var.ec2.instance_type
  user_data = base64encode(<<-EOT
    #!/bin/bash
    cat >>/etc/ecs/ecs.config <<'CONFIG'
    ECS_CLUSTER=${aws_ecs_cluster.this.name}
    ECS_AWSVPC_BLOCK_IMDS=true
    CONFIG
  EOT
  )

  iam_instance_profile {
    arn = aws_iam_instance_profile.this[0].arn
  }

  metadata_options {
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  network_interfaces {
    device_index                = 0
    associate_public_ip_address = false
    delete_on_termination       = true
    security_groups             = [aws_security_group.instances[0].id]
  }

  block_device_mappings {
    device_name = "/dev/xvda"

    ebs {
      volume_type           = "gp3"
      volume_size           = 30
      encrypted             = true
      delete_on_termination = true
    }
  }
}

# ECS sets the number of instances.
resource "aws_autoscaling_group" "zone" {
  for_each = local.instance_zones

  name_prefix           = "${var.name}-${each.key}-"
  min_size              = 0
  max_size              = var.ec2.max_instances
  vpc_zone_identifier   = [each.value.subnet_id]
  protect_from_scale_in = true
  # A destroyed group ends its protected instances. Their tasks have ended before.
  force_delete = true

  launch_template {
    id      = aws_launch_template.this[0].id
    version = aws_launch_template.this[0].latest_version
  }

  tag {
    key                 = "Name"
    value               = var.name
    propagate_at_launch = true
  }

  # ECS adds this tag. Without the block, each plan would remove it.
  tag {
    key                 = "AmazonECSManaged"
    value               = "true"
    propagate_at_launch = true
  }
}

resource "aws_ecs_capacity_provider" "zone" {
  for_each = local.instance_zones

  # AWS takes no name that begins with aws, ecs or fargate.
  name = "freshet-${var.name}-${each.value.subnet_id}"

  auto_scaling_group_provider {
    auto_scaling_group_arn         = aws_autoscaling_group.zone[each.key].arn
    managed_termination_protection = "ENABLED"
    managed_draining               = "ENABLED"

    managed_scaling {
      status          = "ENABLED"
      target_capacity = var.ec2.target_capacity
    }
  }
}

resource "aws_ecs_cluster_capacity_providers" "this" {
  count = var.ec2 == null ? 0 : 1

  cluster_name       = aws_ecs_cluster.this.name
  capacity_providers = [for z in var.zones : aws_ecs_capacity_provider.zone[z.name].name]
}
