package controlplane

// Owned reports whether this replica is the owner of a virtual cluster.
func (c *ControlPlane) Owned(virtualCluster string) bool {
	built := c.clusters.find(virtualCluster)
	return built != nil && built.owner() != nil
}
