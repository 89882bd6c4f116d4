package metadata

import "iter"

// ConfiguredNames gives the names of a kind of resource that have configs of their own, in order; of brokers that is
// "" for the cluster default. Topics are not among them: their configs are theirs (Topic.Configs).
func (s *machine) ConfiguredNames(resource ConfigResource) iter.Seq[string] {
	return func(yield func(string) bool) {
		first := configKey(resource, "")
		s.configs.Ascend(first, func(key string, _ map[string]string) bool {
			return key[0] == first[0] && yield(key[1:])
		})
	}
}
