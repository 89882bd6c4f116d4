// Package scale says how many agents each zone of a virtual cluster should have, for whoever scales them: Kubernetes'
// HorizontalPodAutoscaler, KEDA, ECS, a person. It starts and stops nothing itself.
//
// An agent's load is the largest share of its CPU, its network and its memory budgets that is in use. The figure of a zone
// is the sum of its agents' loads over the target of 0.6, rounded up, so that an agent that has just come and has no
// load yet changes nothing. It follows the rule of Kubernetes' HPA (deviations of up to a tenth of the target are none)
// and brings what keeps it calm along: it rises to the least of the last 15 s and falls to the most of the last 5 min.
// The emergency rule does not wait: while the agents of a zone, or one of them, have been above 0.9 for 3 s, the figure
// is at once a half more, or one more.
//
// Agents and the zones that they are in come from the state, loads from what agents tell the owner. Figures are those of
// one tenure: a new owner has no figure for a zone before it has heard a load, and none falls in its first 5 min.
package scale
