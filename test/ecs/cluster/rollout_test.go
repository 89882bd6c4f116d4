package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// definition is a task definition, with the fields that a new revision takes over.
type definition map[string]any

// definition returns the task definition of a zone's service.
func (s *stack) definition(zone string) definition {
	s.t.Helper()
	var described struct{ TaskDefinition definition }
	s.aws(&described, "ecs", "describe-task-definition", "--task-definition", s.service(zone).TaskDefinition)
	keep(described.TaskDefinition, "family", "taskRoleArn", "executionRoleArn", "networkMode", "containerDefinitions", "requiresCompatibilities", "cpu", "memory")
	for _, c := range described.TaskDefinition["containerDefinitions"].([]any) {
		// The stand-in of CloudFormation turns numbers into strings, which the AWS CLI does not take. It does not use them.
		keep(c.(map[string]any), "name", "image", "command", "environment", "secrets", "logConfiguration")
	}
	return described.TaskDefinition
}

// keep removes all other keys.
func keep(fields map[string]any, keys ...string) {
	maps.DeleteFunc(fields, func(key string, _ any) bool { return !slices.Contains(keys, key) })
}

// register registers the definition with another container, and returns its ARN.
func (s *stack) register(d definition, change func(container map[string]any)) string {
	s.t.Helper()
	for _, c := range d["containerDefinitions"].([]any) {
		change(c.(map[string]any))
	}
	for _, key := range []string{"cpu", "memory"} {
		d[key] = fmt.Sprint(d[key])
	}
	input, err := json.Marshal(d)
	require.NoError(s.t, err)
	var registered struct {
		TaskDefinition struct{ TaskDefinitionArn string }
	}
	s.aws(&registered, "ecs", "register-task-definition", "--cli-input-json", string(input))
	return registered.TaskDefinition.TaskDefinitionArn
}

// rollOut assigns a zone a new task definition, with another flush interval, and waits until all its tasks have it.
func (s *scene) rollOut(zone string) {
	s.t.Helper()
	arn := s.register(s.definition(zone), func(container map[string]any) {
		container["environment"] = append(container["environment"].([]any), map[string]string{"name": "FRESHET_FLUSH_INTERVAL", "value": "200ms"})
	})
	before := s.await(zone, s.counts[zone])
	s.updateService(zone, "--task-definition", arn)
	s.awaitOthers(zone, before)
}

// awaitOthers waits until a zone has as many tasks as its count, all ready, and none of those before.
func (s *scene) awaitOthers(zone string, before []task) {
	s.t.Helper()
	harness.Await(s.t, "all tasks of "+zone+" are new", func() bool {
		tasks, err := s.tasks(familyOf(zone))
		require.NoError(s.t, err)
		return len(tasks) == s.counts[zone] && !slices.ContainsFunc(tasks, func(t task) bool { return slices.Contains(before, t) || !t.ready(agentPort) })
	})
}

// stopTask stops the oldest task of a zone. The service replaces it; the stand-in does so when the count is set again.
func (s *scene) stopTask(zone string) {
	s.t.Helper()
	before := s.await(zone, s.counts[zone])
	stopped := before[len(before)-1]
	s.aws(nil, "ecs", "stop-task", "--cluster", name, "--task", stopped.ARN, "--reason", "test")
	began := time.Now()
	s.updateService(zone, "--desired-count", fmt.Sprint(s.counts[zone]))
	harness.Await(s.t, "the stopped task has a successor", func() bool {
		tasks, err := s.tasks(familyOf(zone))
		require.NoError(s.t, err)
		return len(tasks) == s.counts[zone] && !slices.ContainsFunc(tasks, func(t task) bool { return t == stopped || !t.ready(agentPort) })
	})
	s.t.Logf("%s: the successor of a stopped task is ready %s after stop-task", zone, time.Since(began).Round(time.Millisecond))
}

// rollOutBroken assigns a zone a task definition whose tasks end at start. The circuit breaker must roll it back, and no task of before may end.
func (s *scene) rollOutBroken(zone string) {
	s.t.Helper()
	before := s.await(zone, s.counts[zone])
	good := s.service(zone).TaskDefinition
	arn := s.register(s.definition(zone), func(container map[string]any) { container["command"] = []string{"agent", "--no-such-flag"} })
	s.updateService(zone, "--task-definition", arn)
	began := time.Now()
	harness.Await(s.t, "the circuit breaker has rolled back", func() bool {
		s.kept(zone, before)
		return s.service(zone).TaskDefinition == good
	})
	s.t.Logf("%s: the circuit breaker has rolled back %s after update-service", zone, time.Since(began).Round(time.Millisecond))
	s.kept(zone, before)
	require.ElementsMatch(s.t, before, s.await(zone, s.counts[zone]))
}

// kept records a broken promise if a task of before has ended.
func (s *scene) kept(zone string, before []task) {
	s.t.Helper()
	now, err := s.tasks(familyOf(zone))
	require.NoError(s.t, err)
	for _, t := range before {
		if !slices.Contains(now, t) {
			s.broken("%s: task %s has ended", zone, t.ARN)
		}
	}
}

// updateStack changes a parameter of all agents. Counts that update-service has set stand.
func (s *scene) updateStack() {
	s.t.Helper()
	before := map[string][]task{}
	for _, zone := range zones {
		before[zone] = s.await(zone, s.counts[zone])
	}
	s.deploy(map[string]string{"DrainSeconds": "20"})
	for _, zone := range zones {
		s.awaitOthers(zone, before[zone])
		now := s.service(zone)
		s.t.Logf("%s: desired count %d, %d tasks run, after update-service had set %d", zone, now.DesiredCount, now.RunningCount, s.counts[zone])
		if now.DesiredCount != s.counts[zone] {
			s.broken("%s: the count is %d after an update of the stack, and was %d", zone, now.DesiredCount, s.counts[zone])
		}
	}
}
