// Package ecs holds the CloudFormation templates and the Terraform module of a cluster on ECS: the cluster on Fargate or on EC2 instances, its etcd on EC2,
// control planes for tenants, and scaling. Its tests evaluate the templates for several sets of parameters and compare the result with the program's flags,
// ports and times. `make lint-deploy` adds cfn-lint, and compares the module with the template.
package ecs
