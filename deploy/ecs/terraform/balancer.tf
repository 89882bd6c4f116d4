locals {
  balanced = { for name, z in local.zones : name => z if var.load_balancers }
  # A target group and a listener for each zone and port.
  forwards = { for f in setproduct(keys(local.balanced), range(9192, 9196)) : "${f[0]}-${f[1]}" => { zone = f[0], port = f[1] } }
}

resource "aws_lb" "zone" {
  for_each = local.balanced

  name_prefix                      = "kafka-"
  load_balancer_type               = "network"
  internal                         = true
  subnets                          = [each.value.subnet_id]
  security_groups                  = [aws_security_group.balancers[0].id]
  enable_cross_zone_load_balancing = false
}

resource "aws_lb_target_group" "agents" {
  for_each = local.forwards

  name_prefix          = "kafka-"
  vpc_id               = var.vpc_id
  target_type          = "ip"
  protocol             = "TCP"
  port                 = each.value.port
  preserve_client_ip   = true
  deregistration_delay = 15

  health_check {
    protocol            = "HTTP"
    port                = "8080"
    path                = "/readyz"
    interval            = 5
    timeout             = 4
    healthy_threshold   = 2
    unhealthy_threshold = 2
  }
}

resource "aws_lb_listener" "agents" {
  for_each = local.forwards

  load_balancer_arn        = aws_lb.zone[each.value.zone].arn
  protocol                 = "TCP"
  port                     = each.value.port
  tcp_idle_timeout_seconds = 600

  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.agents[each.key].arn
  }
}
