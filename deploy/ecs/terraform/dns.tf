resource "aws_service_discovery_private_dns_namespace" "this" {
  name = var.namespace
  vpc  = var.vpc_id
}

# The provider warns that failure_threshold is deprecated. Without it, each plan would replace the name.
resource "aws_service_discovery_service" "control_plane" {
  name = "controlplane"

  dns_config {
    namespace_id   = aws_service_discovery_private_dns_namespace.this.id
    routing_policy = "MULTIVALUE"

    dns_records {
      type = "A"
      ttl  = 10
    }
  }

  health_check_custom_config {
    failure_threshold = 1
  }
}

resource "aws_service_discovery_service" "agents" {
  for_each = local.zones

  name = each.key

  dns_config {
    namespace_id   = aws_service_discovery_private_dns_namespace.this.id
    routing_policy = "MULTIVALUE"

    dns_records {
      type = "A"
      ttl  = 10
    }
  }

  health_check_custom_config {
    failure_threshold = 1
  }
}
