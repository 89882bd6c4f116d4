package id

// MaxVirtualClusterName is the longest name of a virtual cluster, in bytes: that of a topic in Kafka.
const MaxVirtualClusterName = 249

// ValidVirtualCluster reports whether a name can be a virtual cluster's: 1 to MaxVirtualClusterName of a-z A-Z 0-9 . _ -, and
// neither "." nor "..". It is one element of keys in etcd and in the bucket.
func ValidVirtualCluster(name string) bool {
	if name == "" || name == "." || name == ".." || len(name) > MaxVirtualClusterName {
		return false
	}
	for _, c := range name {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
