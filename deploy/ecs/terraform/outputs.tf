output "bootstrap" {
  description = "bootstrap.servers of clients in the VPC. Put the client's own zone first."
  value       = join(",", [for z in var.zones : "${z.name}.${var.namespace}:9092"])
}

output "bootstrap_by_load_balancers" {
  description = "bootstrap.servers of clients of the load balancers. Empty without load balancers."
  value       = join(",", [for z in var.zones : "${aws_lb.zone[z.name].dns_name}:9192" if var.load_balancers])
}

output "control_plane_http" {
  description = "--control-plane-http of freshet status and other commands"
  value       = "controlplane.${var.namespace}:8090"
}

output "cluster_name" {
  description = "ECS cluster"
  value       = aws_ecs_cluster.this.name
}

output "agent_services" {
  description = "ECS services of agents"
  value       = [for z in var.zones : aws_ecs_service.agents[z.name].name]
}

output "bucket_name" {
  description = "Bucket of the records"
  value       = local.bucket
}

output "operator_key_secret" {
  description = "ARN of the secret with the operator key"
  value       = local.keys["operator"]
}

output "read_only_key_secret" {
  description = "ARN of the secret with the read-only key"
  value       = local.keys["read-only"]
}

output "control_plane_security_group" {
  description = "Security group of control planes"
  value       = aws_security_group.control_planes.id
}
