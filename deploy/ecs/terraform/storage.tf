resource "aws_s3_bucket" "records" {
  count = var.bucket == null ? 1 : 0

  bucket_prefix = "${var.name}-"

  lifecycle {
    prevent_destroy = true
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "records" {
  count = var.bucket == null ? 1 : 0

  bucket = aws_s3_bucket.records[0].bucket

  rule {
    apply_server_side_encryption_by_default {
      sse_algorithm = "AES256"
    }
  }
}

resource "aws_s3_bucket_ownership_controls" "records" {
  count = var.bucket == null ? 1 : 0

  bucket = aws_s3_bucket.records[0].bucket

  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_public_access_block" "records" {
  count = var.bucket == null ? 1 : 0

  bucket                  = aws_s3_bucket.records[0].bucket
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

# Freshet deletes its objects itself. A rule that deletes or moves objects loses records.
resource "aws_s3_bucket_lifecycle_configuration" "records" {
  count = var.bucket == null ? 1 : 0

  bucket = aws_s3_bucket.records[0].bucket

  rule {
    id     = "unfinished-uploads"
    status = "Enabled"

    filter {}

    abort_incomplete_multipart_upload {
      days_after_initiation = 7
    }
  }
}

resource "aws_secretsmanager_secret" "key" {
  for_each = local.made_keys

  name_prefix = "${var.name}-${each.key}-key-"
  description = "${each.key == "agent" ? "Agent" : each.key == "operator" ? "Operator" : "Read-only"} key of Freshet"
}

# Every plan and apply generates keys, which neither plan nor state has. A secret gets one when it is made, and when secret_string_wo_version changes.
ephemeral "aws_secretsmanager_random_password" "key" {
  for_each = local.made_keys

  password_length     = 48
  exclude_punctuation = true
}

resource "aws_secretsmanager_secret_version" "key" {
  for_each = local.made_keys

  secret_id                = aws_secretsmanager_secret.key[each.key].arn
  secret_string_wo         = ephemeral.aws_secretsmanager_random_password.key[each.key].random_password
  secret_string_wo_version = 1
}
