// Package ecs holds agents to the contract of an ECS task, with real processes and a stand-in for the task metadata endpoint: an agent
// takes its zone from the endpoint, ends with one line if the endpoint does not tell it, answers the container's health check, and is gone
// before the stop timeout of its task. A task that ECS kills at the stop timeout loses nothing that was acknowledged.
package ecs
