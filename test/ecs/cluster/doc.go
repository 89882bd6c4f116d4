// Package cluster deploys the template of deploy/ecs on a stand-in of ECS and CloudFormation (stack.sh): ministack answers the AWS CLI and
// starts the containers of tasks by Podman. Java and librdkafka produce and consume all the time, while `aws ecs update-service` changes
// the count of each zone's agents, task definitions are rolled out, tasks are stopped, and the stack is updated. In the end every record must be
// there once, in order, at the offset that its producer was told. No application may have seen an error, no session of an agent
// may have timed out, and counting down may stall a client for at most 2 s. `make e2e-ecs` runs it as root on Debian; other test
// commands skip it.
//
// The stand-in differs from AWS. It runs no health checks of containers, waits 5 s from SIGTERM to SIGKILL whatever stopTimeout says, and
// registers no task in Cloud Map: a DNS server of the test leads to the running tasks. Load balancers are records only, so TestCluster
// deploys none, and TestProvider forwards connections in place of those of provider.yaml. The object store and etcd run on this machine.
package cluster
