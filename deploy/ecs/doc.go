// Package ecs holds the CloudFormation template and the Terraform module of a cluster on ECS with Fargate. Its tests evaluate the template for several
// sets of parameters and compare the result with the program's flags, ports and times. `make lint-deploy` adds cfn-lint, and compares the module with the
// template.
package ecs
