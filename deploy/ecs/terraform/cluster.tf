data "aws_caller_identity" "current" {}
data "aws_partition" "current" {}
data "aws_region" "current" {}

# A zone of the wrong name would give clients a rack that is not theirs.
data "aws_subnet" "zone" {
  for_each = local.zones

  id = each.value.subnet_id

  lifecycle {
    postcondition {
      condition     = self.availability_zone == each.key && self.cidr_block == each.value.cidr && self.vpc_id == var.vpc_id
      error_message = "zones: ${each.value.subnet_id} must be the subnet of vpc_id with zone ${each.key} and CIDR ${each.value.cidr}."
    }
  }
}

locals {
  zones  = { for z in var.zones : z.name => z }
  region = data.aws_region.current.region
  # The launch type of the tasks.
  launch_type = var.ec2 == null ? "FARGATE" : "EC2"

  bucket = var.bucket == null ? aws_s3_bucket.records[0].bucket : var.bucket

  # Keys by kind: the given secret, or null for a generated one.
  given_keys = { agent = var.agent_key_secret_arn, operator = var.operator_key_secret_arn, read-only = var.read_only_key_secret_arn }
  made_keys  = toset([for kind, arn in local.given_keys : kind if arn == null])
  keys       = { for kind, arn in local.given_keys : kind => arn == null ? aws_secretsmanager_secret.key[kind].arn : arn }

  bucket_arn = "arn:${data.aws_partition.current.partition}:s3:::${local.bucket}"
  bucket_url = "s3://${local.bucket}/${var.prefix}?region=${local.region}${var.bucket_options}"

  # The bucket of the control planes.
  state_bucket     = var.state_bucket == null ? local.bucket : var.state_bucket
  state_bucket_arn = "arn:${data.aws_partition.current.partition}:s3:::${local.state_bucket}"
  state_bucket_url = "s3://${local.state_bucket}/${var.prefix}?region=${local.region}${var.bucket_options}"
}

resource "aws_ecs_cluster" "this" {
  name = var.name
}

resource "aws_cloudwatch_log_group" "this" {
  name_prefix       = "${var.name}-"
  retention_in_days = var.log_retention_days
}

locals {
  assume = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "ecs-tasks.amazonaws.com" }
      Action    = "sts:AssumeRole"
      Condition = { StringEquals = { "aws:SourceAccount" = data.aws_caller_identity.current.account_id } }
    }]
  })
}

# The role by which ECS starts tasks.
resource "aws_iam_role" "execution" {
  name_prefix        = "${var.name}-start-"
  assume_role_policy = local.assume
}

resource "aws_iam_role_policy" "execution" {
  name = "start"
  role = aws_iam_role.execution.name
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        { Effect = "Allow", Action = ["logs:CreateLogStream", "logs:PutLogEvents"], Resource = "${aws_cloudwatch_log_group.this.arn}:*" },
        { Effect = "Allow", Action = "secretsmanager:GetSecretValue", Resource = concat([for kind, arn in local.keys : arn], [for name, arn in local.etcd_secrets : arn]) },
      ],
      # GetAuthorizationToken has no resource.
      [for s in [
        { Effect = "Allow", Action = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"], Resource = var.ecr_repository_arn },
        { Effect = "Allow", Action = "ecr:GetAuthorizationToken", Resource = "*" },
      ] : s if var.ecr_repository_arn != null],
    )
  })
}
