"""Plants faults into the text of deploy/ecs/terraform. awscheck must find each."""

import pathlib
import unittest
from unittest import mock

import awscheck

MODULE = pathlib.Path(__file__).parents[2] / "deploy/ecs/terraform"

PLANTED = [
    # file, text, replacement, fault
    ("agents.tf", "skip_destroy", "skip_destruction", "aws_ecs_task_definition.agent: no argument or block skip_destruction"),
    ("agents.tf", "    cpu_architecture ", "    cpu_architectur ", "aws_ecs_task_definition.agent.runtime_platform: no argument or block cpu_architectur"),
    ("agents.tf", "  deployment_circuit_breaker {", "  circuit_breaker {", "aws_ecs_service.agents: no argument or block circuit_breaker"),
    ("agents.tf", "      container_port ", "      port ", "aws_ecs_service.agents.load_balancer: no argument or block port"),
    ("agents.tf", '  dynamic "load_balancer" {', '  dynamic "service_registries" {', "aws_ecs_service.agents: service_registries is taken once, so its for_each must be CONDITION ? [1] : []"),
    (
        "agents.tf",
        "  service_registries {",
        "  service_registries {\n    registry_arn = aws_service_discovery_service.control_plane.arn\n  }\n\n  service_registries {",
        "aws_ecs_service.agents: service_registries is taken once, and is there 2 times",
    ),
    ("agents.tf", "    registry_arn = ", "    container_name = ", "aws_ecs_service.agents.service_registries: registry_arn is missing"),
    ("agents.tf", "  family    ", "  track_latest    ", "aws_ecs_task_definition.agent: family is missing"),
    ("agents.tf", ".dns_name", ".dnsname", "aws_lb.zone has no attribute dnsname"),
    ("agents.tf", "aws_lb_target_group.agents[", "aws_lb_targets.agents[", "aws_lb_targets.agents has no attribute arn"),
    ("agents.tf", "for_each = var.ec2 == null ? [1] : []", "for_each = [1, 2]", "aws_ecs_task_definition.agent: runtime_platform is taken once, so its for_each must be CONDITION ? [1] : []"),
    ("balancer.tf", "  default_action {", "  default_action = {", "aws_lb_listener.agents: default_action is a block"),
    ("balancer.tf", "    target_group_arn = ", "    target_group = ", "aws_lb_listener.agents.default_action: no argument or block target_group"),
    ("cluster.tf", 'resource "aws_ecs_cluster"', 'resource "aws_ecs_clusters"', "aws_ecs_clusters.this: no such type"),
    ("cluster.tf", "  id = each.value.subnet", "  subnet = each.value.subnet", "data.aws_subnet.zone: no argument or block subnet"),
    ("cluster.tf", "data.aws_region.current.region", "data.aws_region.current.regions", "data.aws_region.current has no attribute regions"),
    ("ec2.tf", "managed_draining ", "manage_draining ", "aws_ecs_capacity_provider.zone.auto_scaling_group_provider: no argument or block manage_draining"),
    ("ec2.tf", "    http_tokens ", "    http_token ", "aws_launch_template.this.metadata_options: no argument or block http_token"),
    ("ec2.tf", "[0].latest_version", "[0].version", "aws_launch_template.this has no attribute version"),
    ("network.tf", "  vpc_id            = var.vpc_id\n", "", "aws_vpc_endpoint.gateway: vpc_id is missing"),
    ("storage.tf", "  password_length ", "  length ", "ephemeral.aws_secretsmanager_random_password.key: no argument or block length"),
    ("storage.tf", "[each.key].random_password", "[each.key].result", "ephemeral.aws_secretsmanager_random_password.key has no attribute result"),
    ("storage.tf", "  secret_string_wo  ", "  secret_string_write_only  ", "aws_secretsmanager_secret_version.key: no argument or block secret_string_write_only"),
]


class Module(unittest.TestCase):
    def test_planted_faults_are_found(self):
        for name, old, planted, fault in PLANTED:
            with self.subTest(fault):
                text = (MODULE / name).read_text()
                self.assertIn(old, text)
                faults = awscheck.check(name, text.replace(old, planted))
                self.assertTrue(any(f.endswith(f"{name}: {fault}") for f in faults), faults)

    def test_missing_package_is_an_error(self):
        awscheck.load_schema.cache_clear()
        with mock.patch.object(awscheck, "PACKAGE", "absent_package"), self.assertRaisesRegex(SystemExit, "absent_package is not installed"):
            awscheck.load_schema("aws_lb")


if __name__ == "__main__":
    unittest.main()
