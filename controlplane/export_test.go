package controlplane

// Owned reports whether this replica is the owner of a virtual cluster.
func (c *ControlPlane) Owned(virtualCluster string) bool {
	for _, built := range c.clusters {
		if built.name == virtualCluster {
			return built.owner() != nil
		}
	}
	return false
}
