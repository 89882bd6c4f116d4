package kafkaproto

// Feature is one of Kafka's feature levels (KIP-584) as ApiVersions shows it.
type Feature struct {
	Name      string
	Min, Max  int16 // supported levels
	Finalized int16 // 0: not finalized
}

// The level of metadata.version of brokers of KafkaVersion (MetadataVersion.LATEST_PRODUCTION), and its name. Clients show them.
const (
	metadataVersion     = 33
	MetadataVersionName = "4.4-IV2"
)

// Features returns the feature levels that are supported. A Java producer uses the second transaction protocol only from a
// finalized transaction.version of 2 on (KIP-890), and the new group protocol needs a group.version of 1 (KIP-848).
func Features() []Feature { return features }

var features = []Feature{
	{Name: "metadata.version", Min: 7, Max: metadataVersion, Finalized: metadataVersion},
	{Name: "transaction.version", Min: 0, Max: 2, Finalized: 2},
	{Name: "group.version", Min: 0, Max: 1, Finalized: 1},
}
