package kafkaproto

// Feature is one of Kafka's feature levels (KIP-584) as ApiVersions shows it.
type Feature struct {
	Name      string
	Min, Max  int16 // supported levels
	Finalized int16 // 0: not finalized
}

// metadataVersion is the level of metadata.version that 4.3 final brokers have; clients take it for display and for
// what the cluster can do.
const metadataVersion = 30

// Features gives the feature levels that are spoken. A Java producer uses the second transaction protocol only from a
// finalized transaction.version of 2 on (KIP-890), and the new group protocol needs a group.version of 1 (KIP-848).
func Features() []Feature { return features }

var features = []Feature{
	{Name: "metadata.version", Min: 7, Max: metadataVersion, Finalized: metadataVersion},
	{Name: "transaction.version", Min: 0, Max: 2, Finalized: 2},
	{Name: "group.version", Min: 0, Max: 1, Finalized: 1},
}
