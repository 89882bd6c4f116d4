// Package runner runs the background jobs that the owner of the virtual cluster gives an agent, within bounds, and
// hands in what became of them.
//
// A job writes objects that nothing refers to before its outcome is handed in, so it can end at any point: cancelled by
// the owner, by the agent's end, by a failure. What it leaves behind is found by listing what ended jobs wrote. An
// outcome is handed in by parts, each again and again until the owner has answered it; one that comes too late is
// refused without harm.
package runner
