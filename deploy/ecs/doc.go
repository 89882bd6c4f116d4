// Package ecs holds the CloudFormation template of a cluster on ECS with Fargate. Its tests evaluate the template for several sets of
// parameters and compare the result with the program's flags, ports and times. `make lint-deploy` adds cfn-lint.
package ecs
