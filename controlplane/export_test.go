package controlplane

import "time"

// Owned reports whether this replica is the owner of a virtual cluster.
func (c *ControlPlane) Owned(virtualCluster string) bool {
	built := c.clusters.find(virtualCluster)
	return built != nil && built.owner() != nil
}

// Replicas returns the addresses for agents of the replicas that this one knows.
func (c *ControlPlane) Replicas() []string { return c.members.Replicas() }

// Idle reports whether this replica owns a virtual cluster of etcd that had no agent lately.
func (c *ControlPlane) Idle(clusterID string) bool { return c.contacts.idle(clusterID) }

// SettleAfter sets the time for which a better placed replica must have been registered. It is called before Run.
func (c *ControlPlane) SettleAfter(d time.Duration) { c.placement.settled = d }

// ReturnAfter sets the pause before a virtual cluster is handed over again that has come back. It is called before Run.
func (c *ControlPlane) ReturnAfter(d time.Duration) { c.placement.returnPause = d }

// BestPlaced returns the one of two replicas that is placed better for a virtual cluster.
func BestPlaced(clusterID, a, b string) string { return registered(a, b).placed(clusterID)[0] }
